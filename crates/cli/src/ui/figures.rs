// SPDX-License-Identifier: LGPL-3.0-only
//! Formats numbers, durations and times for people: grouped digits, units, and few decimals.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, Unit as Time, Zoned};

use fairshare_protocol::settings;

/// The unit of a usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Node-seconds, as in flux-accounting. Tables show node-hours.
    NodeSeconds,
    /// Any other unit, as in a document from another scheduler or at a site with other weights. Amounts are shown without a unit.
    #[default]
    Unknown,
}

const HOUR: f64 = 3600.0;

impl Unit {
    pub(crate) fn new(is_node_seconds: bool) -> Unit {
        if is_node_seconds { Unit::NodeSeconds } else { Unit::Unknown }
    }

    /// Returns the name of the unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::NodeSeconds => "node-hours",
            Unit::Unknown => "usage",
        }
    }

    /// Returns the title of a column of decayed usage.
    pub(crate) fn title(self) -> &'static str {
        match self {
            // On a terminal of 80 columns, a longer title would hide the next column.
            Unit::NodeSeconds => "node-h (decayed)",
            Unit::Unknown => "usage",
        }
    }

    /// Formats a usage for a column of this unit, with the same number of decimals in each row.
    pub(crate) fn column(self, usage: f64) -> String {
        match self {
            Unit::NodeSeconds if usage.abs() >= 0.01 * HOUR => decimals(usage / HOUR),
            _ => self.figure(usage),
        }
    }

    /// Formats a usage in this unit, without the unit's name.
    pub(crate) fn figure(self, usage: f64) -> String {
        match self {
            Unit::NodeSeconds => format_hours(usage / HOUR),
            Unit::Unknown => plain(usage),
        }
    }

    /// Formats a usage with the unit's name.
    pub(crate) fn amount(self, usage: f64) -> String {
        match self {
            // In hours, the usage would be shown as 0.00.
            Unit::NodeSeconds if usage != 0.0 && usage.abs() < HOUR / 100.0 => {
                format!("{} node-seconds", plain(usage))
            }
            Unit::NodeSeconds => format!("{} node-hours", self.figure(usage)),
            Unit::Unknown => self.figure(usage),
        }
    }
}

fn format_hours(hours: f64) -> String {
    match hours.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.01 => if hours < 0.0 { "> -0.01" } else { "< 0.01" }.to_owned(),
        small if small < 1000.0 => format!("{hours:.2}"),
        _ => group_digits(&format!("{hours:.0}")),
    }
}

/// Formats a number with grouped digits and two decimals.
fn decimals(number: f64) -> String {
    let text = format!("{number:.2}");
    match text.split_once('.') {
        Some((whole, part)) if whole.len() <= 9 => format!("{}.{part}", group_digits(whole)),
        _ => group_digits(&format!("{number:.0}")),
    }
}

/// Formats a number with two decimals, or with three significant digits if its absolute value is below 0.1.
pub(crate) fn plain(number: f64) -> String {
    let size = number.abs();
    if number.fract() == 0.0 || size >= 1000.0 {
        group_digits(&format!("{number:.0}"))
    } else if size >= 0.1 {
        format!("{number:.2}")
    } else if size >= 1e-6 {
        let decimals = 2 - size.log10().floor() as i32;
        let text = format!("{number:.*}", usize::try_from(decimals).unwrap_or(2));
        text.trim_end_matches('0').to_owned()
    } else {
        if number < 0.0 { "> -0.000001" } else { "< 0.000001" }.to_owned()
    }
}

/// Adds a comma at each thousand. A number of more than 18 digits is rounded to three significant digits.
pub(crate) fn group_digits(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    if digits.len() > 18 {
        let number: f64 = digits.parse().unwrap_or(f64::INFINITY);
        return format!("{sign}{number:.2e}");
    }
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with a comma at each thousand.
pub(crate) fn number(count: impl ToString) -> String {
    group_digits(&count.to_string())
}

/// Formats a term of a sum, with up to two decimals.
pub(crate) fn term(number: f64) -> String {
    trim_decimals(&format!("{number:.2}"))
}

/// Formats node-, core- or GPU-milliseconds as hours, with up to four decimals, or up to seven below 0.01 hours.
pub(crate) fn hours(milliseconds: i64) -> String {
    let decimals = if milliseconds.abs() < 36_000 { 7 } else { 4 };
    trim_decimals(&format!("{:.decimals$}", milliseconds as f64 / (1000.0 * HOUR)))
}

/// Groups the digits of a number with decimals, and removes zeros from the end.
pub(crate) fn trim_decimals(text: &str) -> String {
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.split_once('.') {
        Some((whole, part)) => format!("{}.{part}", group_digits(whole)),
        None if text == "-0" => "0".to_owned(),
        None => group_digits(text),
    }
}

/// Formats a fraction as a percentage.
pub(crate) fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0 %".to_owned(),
        small if small < 0.01 => "< 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

/// Formats the ratio by which siblings are compared. Above a million, the exact ratio has no meaning and is not
/// shown.
pub(crate) fn ratio(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        // flux-accounting's ratio for an association without usage is 2^64.
        unused if unused > 1e18 => "unused".to_owned(),
        large if large >= 1e6 => "> 1,000,000".to_owned(),
        small if small < 0.0001 => "< 0.0001".to_owned(),
        number => format!("{number:.4}"),
    }
}

/// Formats a place: `1st`, `2nd`, `11th`, `1,003rd`.
pub(crate) fn ordinal(place: usize) -> String {
    let ending = match (place % 100, place % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{}{ending}", number(place))
}

/// Describes how many are ahead of `name` in the ranking, and how many are tied with it.
pub(crate) fn describe_associations_ahead(before: usize, name: &str, tied: usize) -> String {
    let ahead = match before {
        0 => "no one is".to_owned(),
        1 => "1 is".to_owned(),
        more => format!("{} are", number(more)),
    };
    let tied = match tied {
        0 => String::new(),
        1 => ", tied with 1 other".to_owned(),
        more => format!(", tied with {} others", number(more)),
    };
    format!("{ahead} ahead of {name}{tied}")
}

/// Formats a duration in the largest unit of which it has at least two, rounded to the nearest: `9 days`, `36 hours`. Seconds are rounded up.
pub(crate) fn duration(seconds: f64) -> String {
    for (length, name) in [(86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")] {
        if seconds >= 2.0 * length || (length == 86_400.0 && seconds == length) {
            let count = (seconds / length).round();
            return format!(
                "{} {name}{}",
                group_digits(&format!("{count:.0}")),
                if count == 1.0 { "" } else { "s" }
            );
        }
    }
    let count = seconds.max(0.0).ceil();
    format!("{count:.0} second{}", if count == 1.0 { "" } else { "s" })
}

/// Formats a duration exactly, rounded up to a second: `2h 10m`.
pub(crate) fn exact_duration(seconds: f64) -> String {
    format!("{:#}", SignedDuration::from_secs(seconds.max(0.0).ceil() as i64))
}

/// Formats a duration like [`duration`] if this does not round it, and otherwise like [`exact_duration`].
pub(crate) fn unrounded(seconds: f64) -> String {
    let unit = [86_400.0, 3600.0, 60.0].into_iter().find(|unit| seconds >= 2.0 * unit).unwrap_or(1.0);
    if seconds % unit == 0.0 { duration(seconds) } else { exact_duration(seconds) }
}

/// Formats a half-life like [`unrounded`]: `7 days`, `84h`, or `none` for 0.
pub(crate) fn half_life_text(seconds: f64) -> String {
    if seconds == 0.0 { "none".to_owned() } else { unrounded(seconds) }
}

/// Parses a duration such as `7d`, `36h`, `2 weeks` or `P7D`, or a Flux Standard Duration such as `1.5d`. A day has 24 hours.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let total = |span: Span| span.total((Time::Second, SpanRelativeTo::days_are_24_hours())).ok();
    let seconds = (text.parse().ok().and_then(total))
        .or_else(|| settings::parse_duration(text).filter(|_| text.ends_with(char::is_alphabetic)))
        // The limit is 100 years. A longer time after the present date could end beyond the last valid date.
        .filter(|seconds| (0.0..=3.2e9).contains(seconds))
        .ok_or("expected a length of time up to 100 years, like 7d, 36h or \"2 weeks\"")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a half-life of at least a second, in the forms of [`parse_duration`].
pub(crate) fn parse_half_life(text: &str) -> Result<Duration, String> {
    let half_life = parse_duration(text)?;
    let is_enough = half_life >= Duration::from_secs(1);
    is_enough.then_some(half_life).ok_or_else(|| "expected at least a second".to_owned())
}

/// Parses a number from 0 to a million.
pub(crate) fn parse_amount(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1000000".to_owned())
}

/// Returns the current time in seconds since the epoch.
pub(crate) fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// Formats a time, in seconds since the epoch, as a local date. The time of day is added if `half_life`, in seconds, is under a week.
pub(crate) fn date(seconds: f64, half_life: f64) -> String {
    let text = format_moment(seconds.clamp(-1e11, 1e11), &TimeZone::system());
    let length = if half_life < 7.0 * 86_400.0 { text.len() } else { "2026-03-29".len() };
    text.get(..length).unwrap_or(&text).to_owned()
}

/// Formats a time, in seconds since the epoch, by RFC 3339 in UTC with whole seconds. Returns `None` if there is no such date.
pub(crate) fn rfc3339(seconds: f64) -> Option<String> {
    let since = SignedDuration::try_from_secs_f64(seconds.floor()).ok()?;
    Timestamp::from_duration(since).ok().map(|instant| instant.to_string())
}

/// Returns a time, in seconds since the epoch, in `zone`. Returns `None` if there is no such date.
pub(crate) fn to_zoned(instant: f64, zone: &TimeZone) -> Option<Zoned> {
    let since = SignedDuration::try_from_secs_f64(instant).ok()?;
    Some(Timestamp::from_duration(since).ok()?.to_zoned(zone.clone()))
}

/// Formats a time in the time zone `zone` for a table.
pub(crate) fn format_moment(instant: f64, zone: &TimeZone) -> String {
    to_zoned(instant, zone)
        .map_or_else(|| "some day".to_owned(), |when| when.strftime("%Y-%m-%d %H:%M").to_string())
}

/// Formats a time in `zone`: the time of day if it is on the same day as `now`, otherwise the date and time.
pub(crate) fn moment(seconds: f64, now: f64, zone: &TimeZone) -> String {
    let zoned = |seconds: f64| to_zoned(seconds.clamp(-1e11, 1e11), zone);
    match (zoned(seconds), zoned(now)) {
        (Some(then), Some(now)) if then.date() == now.date() => then.strftime("%H:%M:%S").to_string(),
        (Some(then), _) => then.strftime("%Y-%m-%d %H:%M").to_string(),
        (None, _) => "some day".to_owned(),
    }
}

/// Returns the note below a table with times of day.
pub(crate) fn make_time_zone_note(now: f64, zone: &TimeZone) -> String {
    format!("The time zone is{}.", zone_name(now, zone))
}

/// Returns a space and the abbreviation of the time zone at a time; empty if there is no such date.
pub(crate) fn zone_name(instant: f64, zone: &TimeZone) -> String {
    to_zoned(instant, zone).map_or(String::new(), |when| when.strftime(" %Z").to_string())
}

/// Formats seconds with about three digits and a unit.
pub(crate) fn span(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size * 1.5).unwrap_or((1.0, "s"));
    let many = seconds / size;
    if many >= 100.0 || many == 0.0 {
        format!("{} {unit}", number(format!("{many:.0}")))
    } else {
        format!("{many:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_that_suits_its_size() {
        let spans = [0.0, 0.04, 89.0, 90.0, 5399.0, 5400.0, 129_600.0, 1e8].map(span);
        assert_eq!(spans, ["0 s", "0.0 s", "89.0 s", "1.5 min", "90.0 min", "1.5 h", "1.5 d", "1,157 d"]);
    }

    #[test]
    fn an_exact_duration_has_all_units_that_are_not_zero() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.2, "1s"),
            (90.0, "1m 30s"),
            (3_600.0, "1h"),
            (7_800.0, "2h 10m"),
            (176_400.0, "49h"),
            (1e300, "2562047788015215h 30m 7s"),
        ] {
            assert_eq!(exact_duration(seconds), text);
        }
    }

    #[test]
    fn a_half_life_and_other_lengths_of_time_have_one_form() {
        for (hours, text) in
            [(0.5, "30 minutes"), (1.5, "90 minutes"), (36.0, "36 hours"), (60.0, "60h"), (168.0, "7 days")]
        {
            assert_eq!([half_life_text(hours * HOUR), unrounded(hours * HOUR)], [text, text]);
        }
        assert_eq!(half_life_text(0.0), "none");
    }

    #[test]
    fn a_date_is_shown_with_a_time_if_the_half_life_is_less_than_a_week() {
        let week = 7.0 * 86_400.0;
        let [slow, fast] = [week, week - 1.0].map(|half_life| date(1_774_738_800.0, half_life));
        assert_eq!(slow.len(), "2026-03-29".len());
        let (day, time) = fast.split_once(' ').expect("a time");
        assert_eq!((day, time.len()), (slow.as_str(), "00:00".len()));
    }

    #[test]
    fn numbers_have_units_and_few_decimals() {
        let usages = [
            (0.0, "0", "0"),
            (1.0, "< 0.01", "1"),
            (7200.0, "2.00", "7,200"),
            (3.6e9, "1,000,000", "3,600,000,000"),
            (0.5, "< 0.01", "0.50"),
            (0.001234, "< 0.01", "0.00123"),
            (1e-9, "< 0.01", "< 0.000001"),
            (3.6e30, "1.00e27", "3.60e30"),
            (-7200.5, "-2.00", "-7,200"),
            (-3.6e9, "-1,000,000", "-3,600,000,000"),
            (-150.25, "-0.04", "-150.25"),
            (-0.001234, "> -0.01", "-0.00123"),
            (-1e-9, "> -0.01", "> -0.000001"),
        ];
        for (usage, hours, raw) in usages {
            assert_eq!(
                (Unit::NodeSeconds.figure(usage), Unit::Unknown.figure(usage)),
                (hours.into(), raw.into())
            );
        }
        assert_eq!([percent(0.0), percent(1.3e-19), percent(0.25)], ["0 %", "< 0.01 %", "25.00 %"]);
        let ratios = [0.0, 1e-9, 0.25, 1e7, 18_446_744_073_709_551_616.0, f64::INFINITY].map(ratio);
        assert_eq!(ratios, ["0", "< 0.0001", "0.2500", "> 1,000,000", "unused", "unused"]);
        let places = [1, 2, 3, 4, 11, 12, 13, 21, 111, 1003].map(ordinal);
        assert_eq!(places, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th", "1,003rd"]);
    }

    #[test]
    fn priority_terms_are_shown_with_as_few_decimals_as_needed() {
        let terms = [0.0, -0.0, 50_000.0, 1234.5, -1000.0, 0.004, 33_333.333].map(term);
        assert_eq!(terms, ["0", "0", "50,000", "1,234.5", "-1,000", "0", "33,333.33"]);
    }

    #[test]
    fn a_time_is_shown_with_its_date_if_it_is_not_today() {
        let now = 1_763_776_000.0;
        assert_eq!(moment(now + 90.0, now, &TimeZone::UTC), "01:48:10");
        assert_eq!(moment(now + 86_400.0, now, &TimeZone::UTC), "2025-11-23 01:46");
        assert_eq!(moment(f64::NAN, now, &TimeZone::UTC), "some day");
    }

    #[test]
    fn a_time_of_rfc3339_is_in_utc() {
        assert_eq!(rfc3339(1_763_776_000.9).as_deref(), Some("2025-11-22T01:46:40Z"));
        assert_eq!(rfc3339(0.0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!([f64::NAN, f64::INFINITY, 1e30].map(rfc3339), [None, None, None]);
    }

    #[test]
    fn all_values_of_a_column_have_the_same_number_of_decimals() {
        let column = [0.0, 36.0, 3600.0, 3.6e7 + 1800.0, 3.6e13, -3.6e7 - 1800.0];
        let column = column.map(|usage| Unit::NodeSeconds.column(usage));
        assert_eq!(column, ["0", "0.01", "1.00", "10,000.50", "10,000,000,000", "-10,000.50"]);
    }

    #[test]
    fn durations_are_parsed_and_formatted() {
        for (text, seconds) in [
            ("7d", 604_800),
            ("36h", 129_600),
            ("2 weeks", 1_209_600),
            ("P1D", 86_400),
            ("1d 12h", 129_600),
            ("1.5d", 129_600),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "soon", "-1d", "900y", "1mo"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_half_life("1s"), Ok(Duration::from_secs(1)));
        assert!(
            parse_half_life("0s").is_err()
                && parse_half_life("1ns").is_err()
                && parse_half_life("x").is_err()
        );
        let durations = [0.0, 1.0, 90.0, 7200.0, 86_400.0, 100_000.0, 777_600.0].map(duration);
        assert_eq!(
            durations,
            ["0 seconds", "1 second", "90 seconds", "2 hours", "1 day", "28 hours", "9 days"]
        );
    }
}
