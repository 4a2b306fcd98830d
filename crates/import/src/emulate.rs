// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the nested document of `flux account export-db --fairshare-emulate`, in which each bank contains its
//! children. The reader does not recurse, so the depth is not limited.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::{self, Raw, type_error};
use fairshare::Builder;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    root: &'a RawValue,
}

/// A bank or a user with its unparsed values. The usage of a bank is the sum of its children's usages and is not read.
#[derive(Default)]
struct Node<'a> {
    /// The index of the parent node in the list.
    above: Option<usize>,
    bank: Raw<'a>,
    username: Raw<'a>,
    shares: Raw<'a>,
    usage: Raw<'a>,
    has_children: bool,
}

impl Node<'_> {
    /// Returns the name of the bank, or `None` if it was not read yet.
    fn bank_name(&self) -> Option<String> {
        fields::parse_optional_text(self.bank).ok().flatten()
    }
}

pub(super) fn read_nested(text: &str) -> Result<Builder, String> {
    let document: Document<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    // Parents come first in the list, so the name of the parent is known.
    let mut banks: Vec<Option<String>> = Vec::new();
    for node in list_nodes(document.root)? {
        let parent = node.above.and_then(|above| banks.get(above)?.as_deref());
        banks.push(add_node(&node, parent, &mut builder)?);
    }
    Ok(builder)
}

/// Adds a node to the builder. Returns the name if the node is a bank.
fn add_node(node: &Node<'_>, parent: Option<&str>, builder: &mut Builder) -> Result<Option<String>, String> {
    let describe_position =
        || parent.map_or("the root".to_owned(), |bank| format!("a child of bank \"{bank}\""));
    let parse_name = |raw, key| {
        fields::parse_optional_text(raw).map_err(|fault| format!("{}: {key} {fault}", describe_position()))
    };
    match (parse_name(node.username, "username")?, parse_name(node.bank, "bank")?, parent) {
        (Some(user), _, Some(bank)) => {
            let error_at_user = |text: String| format!("user \"{user}\" in bank \"{bank}\"{text}");
            if node.has_children {
                return Err(error_at_user(" has children".to_owned()));
            }
            let shares = fields::parse_shares(node.shares)
                .map_err(|fault| error_at_user(format!(": shares {fault}")))?;
            let usage =
                fields::parse_usage(node.usage).map_err(|fault| error_at_user(format!(": usage {fault}")))?;
            let usage = usage.ok_or_else(|| error_at_user(": usage is missing".to_owned()))?;
            builder.association(&user, bank, shares, Some(usage), true);
            Ok(None)
        }
        (None, Some(bank), _) => {
            let shares = fields::parse_shares(node.shares)
                .map_err(|fault| format!("bank \"{bank}\": shares {fault}"))?;
            builder.bank(&bank, parent, shares, None);
            Ok(Some(bank))
        }
        (Some(user), _, None) => Err(format!("the root is a user (\"{user}\"), not a bank")),
        (None, None, _) => Err(format!("{} has neither bank nor username", describe_position())),
    }
}

/// Returns all nodes, parents first. `root` is valid JSON, so only the types of values need checks.
fn list_nodes(root: &RawValue) -> Result<Vec<Node<'_>>, String> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    // The indices of the nodes that enclose the current position.
    let mut enclosing: Vec<usize> = Vec::new();
    let mut rest = root.get();
    // True between the brackets of a list of nodes, false between the braces of a node. The root is treated as a list
    // of one node.
    let mut in_list = true;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Ok(nodes) };
        match (in_list, first) {
            (true, '{') => {
                nodes.push(Node { above: enclosing.last().copied(), ..Node::default() });
                enclosing.push(nodes.len() - 1);
                in_list = false;
                rest = rest.get(1..).unwrap_or_default();
            }
            (true, ']' | ',') | (false, '}' | ',') => {
                if first == '}' {
                    enclosing.pop();
                }
                in_list = (first == '}') || (in_list && first == ',');
                rest = rest.get(1..).unwrap_or_default();
            }
            (true, _) => {
                let value: &RawValue = take_value(&mut rest)?;
                let bank = enclosing.last().and_then(|node| nodes.get(*node)).and_then(Node::bank_name);
                let position = match bank {
                    Some(bank) => format!("a child of bank \"{bank}\""),
                    None if enclosing.is_empty() => "the root".to_owned(),
                    None => "a node".to_owned(),
                };
                return Err(format!("{position} {}", type_error(value, "an object")));
            }
            (false, _) => {
                let key: String = take_value(&mut rest)?;
                rest = rest.trim_start().trim_start_matches(':').trim_start();
                let Some(node) = enclosing.last().and_then(|node| nodes.get_mut(*node)) else { continue };
                if key == "children" && rest.starts_with('[') {
                    rest = rest.get(1..).unwrap_or_default();
                    node.has_children |= !rest.trim_start().starts_with(']');
                    in_list = true;
                    continue;
                }
                let value: &RawValue = take_value(&mut rest)?;
                match key.as_str() {
                    "bank" => node.bank = unless_null(value),
                    "username" => node.username = unless_null(value),
                    "shares" => node.shares = unless_null(value),
                    "usage" => node.usage = unless_null(value),
                    "children" if value.get() != "null" => {
                        let position =
                            node.bank_name().map_or(String::new(), |bank| format!("bank \"{bank}\": "));
                        return Err(format!("{position}children {}", type_error(value, "a list of nodes")));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn unless_null(value: &RawValue) -> Raw<'_> {
    (value.get() != "null").then_some(value)
}

/// Parses one JSON value at the start of `rest` and removes it from `rest`.
fn take_value<'a, T: Deserialize<'a>>(rest: &mut &'a str) -> Result<T, String> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter();
    let value = values.next().ok_or("unexpected end")?.map_err(|error| error.to_string())?;
    *rest = rest.get(values.byte_offset()..).unwrap_or_default();
    Ok(value)
}
