// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the file of `sacctmgr dump` as `sacctmgr load` does. Lines have the form `What -
//! 'name':Option=value:...`. A `Parent` line comes before the accounts and users below this parent. Since
//! Slurm 25.05 the lines of all QOS come first.

use std::collections::{HashMap, HashSet};

use super::{Association, Printed, ROOT, Sheet, parse_shares};
use crate::Document;
use fairshare::Shares;

/// The type of object that a line describes. `FromStr` ignores the case, and accepts `machine` for a cluster and
/// `project` for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(ascii_case_insensitive, serialize_all = "lowercase")]
enum Object {
    Qos,
    #[strum(serialize = "cluster", serialize = "machine")]
    Cluster,
    Parent,
    #[strum(serialize = "account", serialize = "project")]
    Account,
    User,
}

/// Names of all options that `sacctmgr load` accepts on lines of accounts and users, in lower case.
const OPTIONS: &str = "adminlevel coordinator classification comment defaultaccount defaultqos defaultwckey description fairshare \
    grpcpumins grpcpurunmins grpcpus grpjobs grpjobsaccrue grpmemory grpnodes grpsubmitjobs grptres \
    grptresmins grptresrunmins grpwall maxcpuminsperjob maxcpurunmins maxcpusperjob maxjobs maxjobsaccrue \
    maxnodesperjob maxsubmitjobs maxtres maxtresminspj maxtresminsperjob maxtrespn maxtresperjob \
    maxtrespernode maxtresrunmins maxwalldurationperjob minpriothresh organization parent partition priority \
    qoslevel wckeys";

/// Returns true if the first line that is not empty or a comment belongs to a dump.
pub(crate) fn is_dump(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().and_then(split_line).is_some_and(|(object, _)| object.is_some())
}

/// Returns the object type of a line and the text after the hyphen, or `None` if the line has no hyphen. sacctmgr also
/// prints each line to stderr, after its own name.
fn split_line(line: &str) -> Option<(Option<Object>, &str)> {
    let (word, rest) = line.strip_prefix("sacctmgr:").unwrap_or(line).split_once('-')?;
    Some((word.trim().parse().ok(), rest.trim()))
}

/// Returns true if the line ends with an odd number of backslashes, so that the next line continues it.
fn continues_on_next_line(line: &str) -> bool {
    let line = line.trim_end();
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// Returns the lines of a file with their numbers. Continued lines are joined; the joined line has the number of its
/// first line.
fn join_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        match lines.last_mut().filter(|_| continues) {
            Some((_, last)) => {
                let length = last.trim_end().len() - 1;
                last.truncate(length);
                last.push_str(line);
            }
            None => lines.push((index + 1, line.to_owned())),
        }
        continues = !line.trim_start().starts_with('#') && continues_on_next_line(line);
    }
    lines
}

/// A character of a line, and true if it was escaped by a backslash.
type Letter = (char, bool);

/// Removes backslashes, and marks the characters that they escaped. An escaped `#` does not start a comment.
fn unescape(text: &str) -> Vec<Letter> {
    let mut letters = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => letters.extend(rest.next().map(|letter| (letter, true))),
            _ => letters.push((letter, false)),
        }
    }
    letters
}

/// Maximum distance in bytes between the quotes around a value. sacctmgr reads lines of at most 4,096 bytes,
/// so no value is longer.
const MAX_VALUE_BYTES: usize = 4096;

/// Parses the name and the options of a line.
struct Scanner<'a> {
    letters: &'a [Letter],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).filter(|letter| **letter != ('#', false)).map(|(letter, _)| *letter)
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Takes characters until one that `ends` accepts, or until the end of the line.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(letter) = self.peek().filter(|letter| !ends(*letter)) {
            taken.push(letter);
            self.at += 1;
        }
        taken.trim().to_owned()
    }

    /// Reads a name or a value. The text is in quotes, or ends at the next colon.
    fn take_value(&mut self) -> Result<String, String> {
        self.skip_spaces();
        let Some(quote) = self.peek().filter(|letter| matches!(letter, '\'' | '"')) else {
            let mut value = self.take_until(|letter| letter == ':');
            while self.peek().is_some() && ends_with_tres(&value) {
                self.at += 1;
                value = value + ":" + &self.take_until(|letter| letter == ':');
            }
            return Ok(value);
        };
        let end = self.find_closing_quote(quote).ok_or("a quote is not closed")?;
        let inside = self.letters.get(self.at + 1..end).unwrap_or_default();
        let value: String = inside.iter().map(|(letter, _)| *letter).collect();
        self.at = end + 1;
        self.take_until(|letter| letter == ':');
        Ok(value.trim().to_owned())
    }

    /// Returns the position of the closing quote. A value may contain quotes that `sacctmgr dump` did not escape. So
    /// this function prefers a quote before an option or the end of the line, then a quote before a colon.
    fn find_closing_quote(&self, quote: char) -> Option<usize> {
        let quotes = || {
            let rest = self.letters.iter().enumerate().skip(self.at + 1).take(MAX_VALUE_BYTES);
            rest.filter(|(_, (letter, _))| *letter == quote).map(|(at, _)| at)
        };
        let is_closing = |at: usize, is_option: bool| {
            let mut rest = Scanner { letters: self.letters, at: at + 1 };
            rest.skip_spaces();
            match rest.peek() {
                None => true,
                Some(':') => {
                    rest.at += 1;
                    let key = rest.take_until(|letter| matches!(letter, '=' | ':' | '\'' | '"'));
                    let key = key.trim_end_matches(['+', '-']).trim();
                    let is_key = !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric());
                    !is_option
                        || rest.peek() == Some('=') && is_key
                        || rest.peek().is_none() && key.is_empty()
                }
                Some(_) => false,
            }
        };
        let mut found = quotes().find(|at| is_closing(*at, true));
        found = found.or_else(|| quotes().find(|at| is_closing(*at, false)));
        found.or_else(|| quotes().next())
    }
}

/// The name in a line, and the options with keys in lower case.
struct Entry {
    name: String,
    options: Vec<(String, String)>,
}

impl Entry {
    fn parse(rest: &str) -> Result<Entry, String> {
        let letters = unescape(rest);
        let mut scanner = Scanner { letters: &letters, at: 0 };
        let name = scanner.take_value()?;
        if name.is_empty() {
            return Err("a name is missing".to_owned());
        }
        let mut options = Vec::new();
        while scanner.peek() == Some(':') {
            scanner.at += 1;
            let key = scanner.take_until(|letter| matches!(letter, '=' | ':'));
            if scanner.peek() != Some('=') {
                if key.is_empty() {
                    continue;
                }
                return Err(format!("\"{key}\": expected \"=\" and a value after this option"));
            }
            scanner.at += 1;
            let key = key.trim_end_matches(['+', '-']).trim().to_lowercase();
            options.push((key, scanner.take_value()?));
        }
        Ok(Entry { name, options })
    }

    /// Returns the value of the last option whose key `is_key` accepts, or `None` if there is no such option. Options
    /// without a value are ignored, as by sacctmgr.
    fn find_value(&self, is_key: impl Fn(&str) -> bool) -> Option<&str> {
        let mut options = self.options.iter().rev().filter(|(_, value)| !value.is_empty());
        options.find(|(key, _)| is_key(key)).map(|(_, value)| value.as_str())
    }

    /// Returns the shares. sacctmgr accepts any prefix of the keys FairShare and Shares, even a single letter.
    fn shares(&self) -> Result<Shares, String> {
        let is_key =
            |key: &str| !key.is_empty() && ["fairshare", "shares"].iter().any(|name| name.starts_with(key));
        self.find_value(is_key).map_or(Ok(Shares::Count(1)), |text| parse_shares("Fairshare", text))
    }

    fn partition(&self) -> &str {
        let is_key = |key: &str| !key.is_empty() && "partition".starts_with(key);
        self.find_value(is_key).unwrap_or_default()
    }

    /// Returns the options that no version of sacctmgr has.
    fn unknown_options(&self) -> impl Iterator<Item = &str> {
        let is_known = |key: &str| {
            !key.is_empty() && OPTIONS.split(' ').chain(["shares"]).any(|name| name.starts_with(key))
        };
        self.options.iter().map(|(key, _)| key.as_str()).filter(move |key| !is_known(key))
    }
}

/// Returns true if a value ends with the name of a TRES whose type follows after a colon. sacctmgr writes
/// `GrpTRES=cpu=8,gres/gpu:a100=4` without quotes.
fn ends_with_tres(value: &str) -> bool {
    let last = value.rsplit(',').next().unwrap_or_default();
    last.starts_with("gres/") && !last.contains('=')
}

fn new_association(name: String, parent: Option<usize>, partition: String, shares: Shares) -> Association {
    Association { name, parent, partition, shares, usage: None, printed: Printed::default() }
}

/// Reads shares without usages. The root account needs no line. As in sacctmgr, only the first line of an account or a
/// user counts, and the names of accounts are converted to lower case.
pub(crate) fn read_dump(text: &str, usages: &[(String, f64)]) -> Result<Document, String> {
    let mut sheet = Sheet { has_partitions: true, from_sacctmgr: true, ..Sheet::default() };
    sheet.accounts.push(new_association(ROOT.to_owned(), None, String::new(), Shares::Count(1)));
    let mut by_name: HashMap<String, usize> = HashMap::from([(ROOT.to_owned(), 0)]);
    let mut seen: HashSet<(usize, String, String)> = HashSet::new();
    let mut above = 0;
    let mut cluster: Option<String> = None;
    for (number, line) in join_lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |text: String| format!("line {number}: {text}");
        let Some((object, rest)) = split_line(line) else {
            sheet.notes.push(fail(
                "left out, because no hyphen follows Cluster, Parent, Account or User".to_owned(),
            ));
            continue;
        };
        let object =
            object.ok_or_else(|| fail("expected Cluster, Parent, Account or User - 'name'".to_owned()))?;
        if object == Object::Qos {
            continue;
        }
        let entry = Entry::parse(rest).map_err(fail)?;
        let name = entry.name.clone();
        for key in entry.unknown_options() {
            sheet.notes.push(fail(format!("\"{name}\": sacctmgr has no option \"{key}\": left out")));
        }
        match object {
            Object::Qos => {}
            Object::Cluster => {
                if let Some(first) = cluster.replace(name.clone()) {
                    return Err(fail(format!(
                        "there are several clusters, {first} and {name}, each with its own tree: \"sacctmgr \
                         dump {name}\" writes the tree of one"
                    )));
                }
            }
            Object::Parent => {
                let name = name.to_lowercase();
                let missing_error = || {
                    fail(format!(
                        "account \"{name}\" is not defined above: define a parent before its accounts and users"
                    ))
                };
                above = *by_name.get(&name).ok_or_else(missing_error)?;
            }
            Object::Account => {
                let name = name.to_lowercase();
                let shares = entry.shares().map_err(|text| fail(format!("account \"{name}\": {text}")))?;
                if name == ROOT {
                    continue;
                }
                if by_name.contains_key(&name) {
                    sheet.notes.push(fail(format!(
                        "account \"{name}\" is already defined: this line is left out, as by sacctmgr"
                    )));
                    continue;
                }
                by_name.insert(name.clone(), sheet.accounts.len());
                sheet.accounts.push(new_association(name, Some(above), String::new(), shares));
            }
            Object::User => {
                let shares = entry.shares().map_err(|text| fail(format!("user \"{name}\": {text}")))?;
                let partition = entry.partition().to_owned();
                if !seen.insert((above, name.clone(), partition.clone())) {
                    sheet.notes.push(fail(format!(
                        "user \"{name}\" is already defined: this line is left out, as by sacctmgr"
                    )));
                    continue;
                }
                sheet.users.push(new_association(name, Some(above), partition, shares));
            }
        }
    }
    sheet.into_document(usages)
}
