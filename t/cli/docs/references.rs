// SPDX-License-Identifier: LGPL-3.0-only
//! Checks the references in docs/design/ and in other documents. Each path must exist, and the file must contain the
//! names that the document lists after the path.
//!
//! A document writes a path in backticks, and then the names: `crates/engine/src/limits/release.rs`
//! `ScanCursor::release_next`, `select_names_to_remove`. After the path of a sharness test, the document quotes titles
//! of tests. A name belongs to the last path before it in the same sentence or table row.

use std::fs;
use std::path::Path;

#[test]
fn references_of_the_documents_exist() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let Ok(directory) = fs::read_dir(top.join("docs/design")) else { return };
    let mut paths: Vec<_> = directory.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.extend(["SECURITY.md", "CONTRIBUTING.md", "docs/evidence/faults.md"].map(|name| top.join(name)));
    paths.sort();
    let mut faults = Vec::new();
    for path in paths {
        let document = fs::read_to_string(&path).expect("text");
        let name = path.strip_prefix(top).expect("a path below the top").display().to_string();
        faults.extend(find_faults(top, &document).iter().map(|fault| format!("{name}:{fault}")));
    }
    assert!(faults.is_empty(), "{} references do not exist:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_reference_to_code_that_does_not_exist_is_reported() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let document = "\
- Code: `t/cli/docs/references.rs` `find_faults`, `Kind::Enum` and `Item::name`.
- Code: `t/cli/docs/references.rs` `find_nothing`, `Kind::find_faults`
  and `Item::Nothing`; `t/cli/main.rs` `RunResult::json`; `t/cli/main.rs` `RunResult::run_with_input`.

`t/cli/docs/nowhere.rs` `find_faults` is not there. The method `nothing` has no path. `t/cli/main.rs` `run_with_input`
uses `ErrorKind::BrokenPipe` and `ErrorKind::Nothing`, and calls `nothing`.

| `t/cli/docs/` `nothing` | `t/t1007-release.t` \"example 7: a start in a queue releases as many jobs as fit\" and \"nothing\" |

```text
`t/cli/nowhere.rs`
```
";
    assert_eq!(
        find_faults(top, document),
        [
            "2: t/cli/docs/references.rs has no item find_nothing",
            "2: t/cli/docs/references.rs has no item Kind::find_faults",
            "2: t/cli/docs/references.rs has no item Item::Nothing",
            "2: t/cli/main.rs has no item RunResult::run_with_input",
            "5: there is no t/cli/docs/nowhere.rs",
            "5: t/cli/main.rs has no item ErrorKind::Nothing",
            "5: t/cli/main.rs has no item nothing",
            "8: t/t1007-release.t has no test that claims \"nothing\"",
        ]
    );
}

/// Returns the references of a document that do not exist, each with the line at which its paragraph, list item or row starts.
fn find_faults(top: &Path, document: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, block) in split_blocks(document) {
        let mut target: Option<Target> = None;
        // True while the text after the path has only names, with separators between them.
        let mut is_listed = false;
        for (n, part) in block.split('`').enumerate() {
            if n % 2 == 0 {
                let mut prose = part;
                while let Some((target, (claim, rest))) =
                    target.as_ref().filter(|target| target.path.ends_with(".t")).zip(
                        strip_leading_list_separator(prose)
                            .strip_prefix('"')
                            .and_then(|quoted| quoted.split_once('"')),
                    )
                {
                    if !target.text.contains(claim) {
                        faults.push(format!("{line}: {} has no test that claims \"{claim}\"", target.path));
                    }
                    prose = rest;
                }
                is_listed &= strip_leading_list_separator(prose).is_empty();
                if [". ", "? ", "! "].iter().any(|end| prose.contains(end)) {
                    target = None;
                }
            } else if is_path(part) {
                target = Target::read(top, part);
                is_listed = true;
                if target.is_none() {
                    faults.push(format!("{line}: there is no {part}"));
                }
            } else if let Some(target) = target.as_ref().filter(|target| !target.has_name(part, is_listed)) {
                faults.push(format!("{line}: {} has no item {part}", target.path));
            }
        }
    }
    faults
}

/// Returns the paragraphs, list items and table rows of a document, each with the number of its first line.
fn split_blocks(document: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut continues) = (false, false);
    for (n, line) in document.lines().enumerate() {
        let text = line.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.is_empty() || text.starts_with("```") {
            continues = false;
            continue;
        }
        let is_numbered = text.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let starts = is_numbered || ["- ", "|", "#"].iter().any(|mark| text.starts_with(mark));
        match blocks.last_mut() {
            Some((_, block)) if continues && !starts => {
                block.push(' ');
                block.push_str(text);
            }
            _ => blocks.push((n + 1, text.to_owned())),
        }
        continues = true;
    }
    blocks
}

/// Removes a comma, an "and" or an "or" from the start of `text`.
fn strip_leading_list_separator(text: &str) -> &str {
    let text = text.trim_start();
    let text = text.strip_prefix(',').unwrap_or(text).trim_start();
    text.strip_prefix("and ").or_else(|| text.strip_prefix("or ")).unwrap_or(text).trim_start()
}

/// Returns whether a text in backticks is the path of a file or directory of the repository.
fn is_path(text: &str) -> bool {
    ["crates/", "src/", "t/", "testing/", "benches/", "docs/", "etc/", ".ci/"]
        .iter()
        .any(|directory| text.starts_with(directory))
        && !text.contains([' ', '*'])
}

/// A path in a document, and the content of the file at this path.
struct Target {
    path: String,
    /// The text of the file, or an empty text for a directory.
    text: String,
    items: Vec<Item>,
}

impl Target {
    /// Reads a file or directory, or returns `None` if it does not exist.
    fn read(top: &Path, path: &str) -> Option<Target> {
        let file = top.join(path);
        let bytes = if file.is_dir() { Vec::new() } else { fs::read(&file).ok()? };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let items = if path.ends_with(".rs") { find_items(&text) } else { Vec::new() };
        Some(Target { path: path.to_owned(), text, items })
    }

    /// Returns true if the file defines an item with this name. If `is_listed` is false, it is enough that the name of a
    /// type or constant occurs in the file. Always returns true for a directory, and for a text that is not a name.
    fn has_name(&self, name: &str, is_listed: bool) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let segments: Vec<&str> = name.split("::").collect();
        let is_name =
            |segment: &&str| segment.chars().all(is_word) && segment.starts_with(|c: char| !c.is_numeric());
        if self.text.is_empty() || !segments.iter().all(is_name) {
            return true;
        }
        let (last, owners) = segments.split_last().expect("split yields one segment at least");
        let is_type = last.starts_with(char::is_uppercase);
        if !self.path.ends_with(".rs") || (is_type && !is_listed) {
            return self.text.match_indices(name).any(|(at, _)| {
                !self.text[..at].ends_with(is_word) && !self.text[at + name.len()..].starts_with(is_word)
            });
        }
        self.items
            .iter()
            .any(|item| item.name == *last && owners.last().is_none_or(|owner| item.owner == *owner))
    }
}

/// An item of a file, a variant of an enum, or a field of a struct.
struct Item {
    /// The type or trait whose block has the item, or an empty text.
    owner: String,
    name: String,
}

/// The kinds of code blocks that define the items of a type.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Impl,
    Enum,
    Struct,
}

/// Returns the items of a file that rustfmt has formatted: a block ends with a bracket at the indentation of its first line.
fn find_items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut open: Option<(usize, Kind, String)> = None;
    for line in text.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if open.as_ref().is_some_and(|(start, ..)| indent == *start && code.starts_with(['}', ')'])) {
            open = None;
        }
        let code = strip_visibility(code);
        let is_open = !code.ends_with([';', '}']);
        if let Some(header) = code.strip_prefix("impl").filter(|header| header.starts_with([' ', '<'])) {
            open = is_open.then(|| (indent, Kind::Impl, find_type_name(header)));
            continue;
        }
        let owner = open.as_ref().map(|(.., name)| name.clone()).unwrap_or_default();
        if let Some((keyword, name)) = find_declared_item(code) {
            let kind = match keyword {
                "enum" => Some(Kind::Enum),
                "struct" | "union" => Some(Kind::Struct),
                "trait" => Some(Kind::Impl),
                _ => None,
            };
            if let Some(kind) = kind {
                open = is_open.then(|| (indent, kind, name.to_owned()));
            }
            items.push(Item { owner, name: name.to_owned() });
        } else if let Some((start, kind, _)) = &open
            && indent == start + 4
        {
            let name = take_word(code);
            let is_field = code[name.len()..].starts_with(':');
            let is_variant = name.starts_with(char::is_uppercase);
            if (*kind == Kind::Struct && is_field) || (*kind == Kind::Enum && is_variant) {
                items.push(Item { owner, name: name.to_owned() });
            }
        }
    }
    items
}

/// Removes `pub` or `pub(...)` from the start of `code`.
fn strip_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else { return code };
    let rest = if rest.starts_with('(') { rest.split_once(')').map_or("", |(_, rest)| rest) } else { rest };
    rest.strip_prefix(' ').unwrap_or(code)
}

/// Returns the keyword and the name of the item that a line declares, or `None` if the line declares no item.
fn find_declared_item(code: &str) -> Option<(&str, &str)> {
    let mut words = code.split(' ').skip_while(|word| ["unsafe", "async", "extern", "\"C\""].contains(word));
    let mut keyword = words.next()?;
    let mut name = words.next()?;
    // A constant function: `const fn name`.
    while keyword == "const" && ["unsafe", "extern", "\"C\"", "fn"].contains(&name) || name == "fn" {
        (keyword, name) = (name, words.next()?);
    }
    let name = if keyword == "static" && name == "mut" { words.next()? } else { name };
    let keywords =
        ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules!"];
    keywords.contains(&keyword).then(|| (keyword, take_word(name)))
}

/// Returns the type of an `impl` block; `header` is the code after `impl`.
fn find_type_name(header: &str) -> String {
    let mut depth = 0;
    let mut before = ' ';
    let end = header.find(|c| {
        match c {
            '<' => depth += 1,
            '>' if before != '-' && before != '=' => depth -= 1,
            _ => {}
        }
        before = c;
        depth == 0 && c != '>'
    });
    let header = &header[end.unwrap_or(0)..];
    let name = header.rsplit_once(" for ").map_or(header, |(_, name)| name);
    let name = name
        .trim_start()
        .trim_start_matches(['&', '*'])
        .trim_start_matches("mut ")
        .trim_start_matches("dyn ");
    let path =
        &name[..name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(name.len())];
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

/// Returns the identifier at the start of `text`.
fn take_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}
