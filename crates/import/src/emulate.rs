// SPDX-License-Identifier: LGPL-3.0-only
//! The nested document of `flux account export-db --fairshare-emulate`: every bank holds its children. Read without
//! recursion, so that any depth will do.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::{self, Raw, fault};
use fairshare::Builder;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    root: &'a RawValue,
}

/// A bank or a user, its values unread. A bank's usage is the sum of what is below it, so it is not read at all.
#[derive(Default)]
struct Node<'a> {
    /// The node that holds it, by its place in the list.
    above: Option<usize>,
    bank: Raw<'a>,
    username: Raw<'a>,
    shares: Raw<'a>,
    usage: Raw<'a>,
    has_children: bool,
}

impl Node<'_> {
    /// The name of a bank, as far as it was read.
    fn bank(&self) -> Option<String> {
        fields::optional_text(self.bank).ok().flatten()
    }
}

pub(super) fn emulate(text: &str) -> Result<Builder, String> {
    let document: Document<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    // Parents come first in the list, so the name of the bank above is always there.
    let mut banks: Vec<Option<String>> = Vec::new();
    for node in nodes(document.root)? {
        let parent = node.above.and_then(|above| banks.get(above)?.as_deref());
        banks.push(add(&node, parent, &mut builder)?);
    }
    Ok(builder)
}

/// Adds a node to the tree; returns the bank's name if it is one.
fn add(node: &Node<'_>, parent: Option<&str>, builder: &mut Builder) -> Result<Option<String>, String> {
    let place = || parent.map_or("the root".to_owned(), |bank| format!("a child of bank \"{bank}\""));
    let name = |raw, key| fields::optional_text(raw).map_err(|fault| format!("{}: {key} {fault}", place()));
    match (name(node.username, "username")?, name(node.bank, "bank")?, parent) {
        (Some(user), _, Some(bank)) => {
            let fail = |text: String| format!("user \"{user}\" in bank \"{bank}\"{text}");
            if node.has_children {
                return Err(fail(" has children".to_owned()));
            }
            let shares = fields::shares(node.shares).map_err(|fault| fail(format!(": shares {fault}")))?;
            let usage = fields::usage(node.usage).map_err(|fault| fail(format!(": usage {fault}")))?;
            let usage = usage.ok_or_else(|| fail(": usage is missing".to_owned()))?;
            builder.association(&user, bank, shares, Some(usage), true);
            Ok(None)
        }
        (None, Some(bank), _) => {
            let shares =
                fields::shares(node.shares).map_err(|fault| format!("bank \"{bank}\": shares {fault}"))?;
            builder.bank(&bank, parent, shares, None);
            Ok(Some(bank))
        }
        (Some(user), _, None) => Err(format!("the root is a user (\"{user}\"), not a bank")),
        (None, None, _) => Err(format!("{} has neither bank nor username", place())),
    }
}

/// Every node, those that hold others first. `root` is valid JSON, so that of its structure only types need checking.
fn nodes(root: &RawValue) -> Result<Vec<Node<'_>>, String> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    // The objects that enclose the place being read.
    let mut open: Vec<usize> = Vec::new();
    let mut rest = root.get();
    // Between the brackets of a list of nodes, not within the braces of one; the root is read like a list's only node.
    let mut in_list = true;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Ok(nodes) };
        match (in_list, first) {
            (true, '{') => {
                nodes.push(Node { above: open.last().copied(), ..Node::default() });
                open.push(nodes.len() - 1);
                in_list = false;
                rest = rest.get(1..).unwrap_or_default();
            }
            (true, ']' | ',') | (false, '}' | ',') => {
                if first == '}' {
                    open.pop();
                }
                in_list = (first == '}') || (in_list && first == ',');
                rest = rest.get(1..).unwrap_or_default();
            }
            (true, _) => {
                let value: &RawValue = take(&mut rest)?;
                let bank = open.last().and_then(|node| nodes.get(*node)).and_then(Node::bank);
                let place = match bank {
                    Some(bank) => format!("a child of bank \"{bank}\""),
                    None if open.is_empty() => "the root".to_owned(),
                    None => "a node".to_owned(),
                };
                return Err(format!("{place} {}", fault(value, "an object")));
            }
            (false, _) => {
                let key: String = take(&mut rest)?;
                rest = rest.trim_start().trim_start_matches(':').trim_start();
                let Some(node) = open.last().and_then(|node| nodes.get_mut(*node)) else { continue };
                if key == "children" && rest.starts_with('[') {
                    rest = rest.get(1..).unwrap_or_default();
                    node.has_children |= !rest.trim_start().starts_with(']');
                    in_list = true;
                    continue;
                }
                let value: &RawValue = take(&mut rest)?;
                match key.as_str() {
                    "bank" => node.bank = present(value),
                    "username" => node.username = present(value),
                    "shares" => node.shares = present(value),
                    "usage" => node.usage = present(value),
                    "children" if value.get() != "null" => {
                        let place = node.bank().map_or(String::new(), |bank| format!("bank \"{bank}\": "));
                        return Err(format!("{place}children {}", fault(value, "a list of nodes")));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn present(value: &RawValue) -> Raw<'_> {
    (value.get() != "null").then_some(value)
}

/// Takes one JSON value off the front of a text.
fn take<'a, T: Deserialize<'a>>(rest: &mut &'a str) -> Result<T, String> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter();
    let value = values.next().ok_or("unexpected end")?.map_err(|error| error.to_string())?;
    *rest = rest.get(values.byte_offset()..).unwrap_or_default();
    Ok(value)
}
