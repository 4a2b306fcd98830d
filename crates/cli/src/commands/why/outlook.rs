// SPDX-License-Identifier: LGPL-3.0-only
//! Explains which user or bank is directly ahead of the given one, and which changes would reverse their order. Also shows how
//! usage decays.

use super::text::Site;
use crate::ui::figures::{date, duration, number, ordinal, unrounded};
use crate::ui::printable::count;
use crate::ui::rows::{Cell, Rows, Style, column};
use fairshare::{Level, NodeId, NodeKind, Overtake, Shares};
use fairshare_accounting::store::{Pace, UsageBin};

/// The number of future boundaries for which recorded usage is shown.
const BOUNDARIES: u32 = 3;

impl Site<'_> {
    /// Describes the place of `node` in the order of PBS's scheduler, with usage / target. Returns `None` if that
    /// order does not contain `node`.
    pub(super) fn describe_position_in_pbs_order(&self, node: NodeId) -> Option<String> {
        let place = ordinal(self.walk.as_ref()?.place(node)?);
        let ratio = self.ranking.usage_over_target(self.tree, node)?;
        Some(match ratio.is_finite() {
            true => format!(
                "{place} in the order of PBS's scheduler (usage / target is {})",
                number(format!("{ratio:.0}"))
            ),
            false => format!("{place} in the order of PBS's scheduler (its target is 0)"),
        })
    }

    /// Prints the node just ahead of a user, the reason, and the changes that would reverse the order.
    pub(super) fn ahead(&self, node: NodeId) {
        let walk = self.walk.as_ref().filter(|_| self.uses_scheduler_order());
        let ahead = walk.map_or_else(|| self.ranking.just_ahead(node), |walk| walk.just_ahead(node));
        let Some(ahead) = ahead else { return };
        self.out.blank();
        let place = walk.map_or_else(|| self.ranking.place(ahead), |walk| walk.place(ahead));
        let place = place.map(ordinal).unwrap_or_default();
        let text = match self.ranking.compare(self.tree, node, ahead) {
            Some(comparison) if self.policy.is_rank() => {
                let (own, other) = (&comparison.decisive.0, &comparison.decisive.1);
                let values = own.value.zip(other.value).filter(|_| !comparison.equal);
                let because = match values {
                    Some((own_value, value)) => format!(
                        ": {} has {} {}, {} has {}",
                        self.full_name(other.node),
                        self.value_name(),
                        self.value(value),
                        self.full_name(own.node),
                        self.value(own_value),
                    ),
                    None => String::new(),
                };
                format!("Just ahead is {} ({place}){because}.", self.full_name(ahead))
            }
            _ => format!("Just ahead is {} ({place}).", self.full_name(ahead)),
        };
        self.out.line(&text);
        self.change(node, ahead)
    }

    /// Prints the changes that would put `node` ahead of `ahead`.
    pub(super) fn change(&self, node: NodeId, ahead: NodeId) {
        let Some(comparison) = self.ranking.compare(self.tree, node, ahead) else { return };
        let Some(change) = self.ranking.overtake(&comparison) else { return };
        let (low, high) = match comparison.decisive {
            (one, other) if one.node == change.node => (one, other),
            (one, other) => (other, one),
        };
        self.out.blank();
        self.out.heading("What would change it:");
        self.out.item(&self.overtaking(&low, &high, change));
        if let (Some(shares), Some(text)) = (change.shares, self.argument(low.node)) {
            self.out.item(&format!("To see all effects: {} --shares {text}={shares}", self.what_if));
        }
    }

    /// Returns the sentence about the change that puts `low` before `high`.
    pub(super) fn overtaking(&self, low: &Level, high: &Level, change: Overtake) -> String {
        let had = match low.detail.shares {
            Shares::Count(shares) => number(shares),
            Shares::Parent => "its parent's".to_owned(),
        };
        let shares = change.shares.map(|shares| {
            let plural = if shares == 1 { "" } else { "s" };
            format!("with {} share{plural} instead of {had}", number(shares))
        });
        let usage = change.usage.map(|usage| {
            format!(
                "with a usage of less than {} instead of {}",
                self.unit.amount(usage),
                self.unit.amount(low.detail.usage)
            )
        });
        let (low, high) = (self.full_name(low.node), self.full_name(high.node));
        match (shares, usage) {
            (None, None) => format!("{low} would come before {high} only if {high} had usage."),
            (shares, usage) => {
                let ways: Vec<String> = shares.into_iter().chain(usage).collect();
                format!("{low} would come before {high} {}.", ways.join(", or "))
            }
        }
    }

    /// Returns a node's name for options of what-if, or `None` if a shell would split it or it looks like an option.
    fn argument(&self, node: NodeId) -> Option<String> {
        let text = match self.tree.kind(node) {
            NodeKind::Bank => self.tree.name(node).to_owned(),
            NodeKind::Association => {
                format!("{}/{}", self.tree.name(node), crate::site::names::bank_of(self.tree, node))
            }
        };
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
        (text.chars().all(plain) && !text.starts_with('-')).then_some(text)
    }

    /// Prints when the usage of the level `lost` is back at its share, if all users of this level are idle. `lost` is the level
    /// that lowers the fair-share most.
    pub(super) fn print_when_usage_equals_share(
        &self,
        lost: Option<&Level>,
        node: NodeId,
        recorded: &[UsageBin],
    ) {
        let Some((level, even)) = lost.and_then(|level| Some((level, level.even_usage()?))) else {
            return;
        };
        let used = level.detail.usage;
        if !self.policy.is_rank() || even >= used {
            return;
        }
        let bank = self.tree.kind(level.node) == NodeKind::Bank;
        let idle = if bank { "if everyone below it is idle" } else { "if idle" };
        // Without bins, treats all usage as usage of the present period, so that the printed date is not too early.
        let bins: Vec<(i64, f64)> = if level.node == node && !recorded.is_empty() {
            recorded.iter().map(|bin| (bin.period, bin.usage)).collect()
        } else {
            vec![(0, used)]
        };
        let halvings = (used / even).log2();
        let pace = if bank { self.pace.map(Pace::for_bank) } else { self.find_usage_decay(recorded) };
        let when = match self.find_time_below(even, pace, &bins) {
            Some((seconds, date)) => format!("in {} ({date})", duration(seconds)),
            None => format!("when the usage has halved {halvings:.1} times"),
        };
        self.out.blank();
        self.out.line(&format!(
            "Given the usage of its siblings, the share of {} is {}. Its usage is back at this share {when}, {idle} while the others \
             continue as before.",
            self.full_name(level.node),
            self.unit.amount(even),
        ));
    }

    /// Returns the decay of the usage in `bins`, or `None` if the periods are unknown.
    fn find_usage_decay(&self, bins: &[UsageBin]) -> Option<Pace> {
        Some(self.pace?.for_rows(bins.last().map(|bin| bin.period)))
    }

    /// Returns when the usage in `bins` is at most `wanted`: seconds from now, and the date. Returns `None` if this never happens.
    fn find_time_below(&self, wanted: f64, pace: Option<Pace>, bins: &[(i64, f64)]) -> Option<(f64, String)> {
        let seconds = find_time_below(self.half_life, pace, self.now, wanted, bins)?;
        let half_life = self.half_life.or(pace.map(|pace| pace.half_life()));
        Some((seconds, date(self.now + seconds, half_life.unwrap_or(f64::INFINITY))))
    }

    /// Prints the recorded usage by period, now and after the next boundaries.
    pub(super) fn bins(&self, bins: &[UsageBin]) {
        let (Some(pace), false) = (self.find_usage_decay(bins), bins.is_empty()) else { return };
        self.out.blank();
        let left = if pace.factor == 0.5 {
            "is halved".to_owned()
        } else {
            format!("falls to {}", crate::ui::figures::percent(pace.factor))
        };
        let unit =
            if self.unit.name() == "usage" { String::new() } else { format!(", in {}", self.unit.name()) };
        let heading = format!(
            "Recorded usage by period{unit}; every {}, the usage of each period {left}, and the oldest of {} is dropped:",
            unrounded(pace.period),
            count(pace.periods as usize, "period")
        );
        self.out.heading(&heading);
        let next = pace.next_boundary(self.now);
        let titles: Vec<String> = (0..BOUNDARIES)
            .map(|ahead| format!("on {}", date(next + f64::from(ahead) * pace.period, pace.half_life())))
            .collect();
        let mut columns = vec![
            column("ended", "jobs ended", Style::Text),
            column("now", "counts now", Style::Usage(self.unit)),
        ];
        const KEYS: [&str; BOUNDARIES as usize] = ["first", "second", "third"];
        columns
            .extend(KEYS.iter().zip(&titles).map(|(key, title)| column(key, title, Style::Usage(self.unit))));
        let row = |name: String, bins: &[(i64, f64)]| {
            let mut row = vec![Cell::Text(name)];
            row.push(Cell::Number(pace.remaining(bins, 0)));
            row.extend((1..=BOUNDARIES).map(|crossed| Cell::Number(pace.remaining_later(bins, crossed))));
            row
        };
        let all: Vec<(i64, f64)> = bins.iter().map(|bin| (bin.period, bin.usage)).collect();
        let mut rows: Vec<Vec<Cell>> =
            all.iter().map(|bin| row(self.period(&pace, bin.0, next), &[*bin])).collect();
        // If credits are larger than the usage of jobs, the sum is negative.
        let together = row("together".to_owned(), &all).into_iter().map(|cell| match cell {
            Cell::Number(usage) => Cell::Number(usage.max(0.0)),
            cell => cell,
        });
        rows.push(together.collect());
        self.table(Rows { key: "usage_bins", columns, rows: Box::new(rows.into_iter()) })
    }

    /// Returns the dates between which the jobs of a period ended.
    fn period(&self, pace: &Pace, period: i64, next: f64) -> String {
        // Period 0 of the database was current at the last count of usage. It may have ended since.
        let periods_ago = period + i64::from(pace.due);
        let end = next - periods_ago as f64 * pace.period;
        let begin = date(end - pace.period, pace.half_life());
        match periods_ago {
            0 => format!("since {begin}"),
            _ => format!("{begin} to {}", date(end, pace.half_life())),
        }
    }

    /// Returns true if the site uses the order of OpenPBS's scheduler.
    pub(super) fn uses_scheduler_order(&self) -> bool {
        self.site_has_walk && self.policy.is_ordered_by_pbs_walk()
    }
}

/// Returns the seconds until the usage in `bins` has decayed to `wanted`, if no usage is added. Returns `None` if
/// this never happens. Each bin is a pair of a period and its usage.
///
/// If `half_life` is given, the usage decays continuously. Otherwise, the usage decays at the period boundaries of
/// the database.
pub(crate) fn find_time_below(
    half_life: Option<f64>,
    pace: Option<Pace>,
    now: f64,
    wanted: f64,
    bins: &[(i64, f64)],
) -> Option<f64> {
    if let Some(half_life) = half_life {
        let used: f64 = bins.iter().map(|(_, usage)| usage).sum();
        let seconds = (used / wanted).log2().max(0.0) * half_life;
        return seconds.is_finite().then_some(seconds);
    }
    let pace = pace?;
    // The database may not have stored the latest decay. With this decay, the usage may already be at most `wanted`.
    if pace.due > 0 && pace.remaining_later(bins, 0) <= wanted {
        return Some(0.0);
    }
    let crossed = (1..=pace.periods).find(|crossed| pace.remaining_later(bins, *crossed) <= wanted)?;
    Some(pace.next_boundary(now) + f64::from(crossed - 1) * pace.period - now)
}
