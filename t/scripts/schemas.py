# SPDX-License-Identifier: LGPL-3.0-only
"""Checks documents of `flux fairshare COMMAND --json` against docs/schemas/COMMAND.json, as t/cli/schemas.rs does.

usage: schemas.py DIRECTORY      with files COMMAND.NUMBER; an empty file is the output of a run that failed

Flux's Python has no validator of JSON schemas, so this program implements the keywords that docs/schemas uses. Another keyword is an
error. A member that a schema does not name is a fault here, although readers must accept one.
"""

import json
import pathlib
import sys

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs/schemas"
TYPES = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
IGNORED = {"$defs", "$schema", "default", "description", "format", "title"}
KNOWN = {
    "$ref", "additionalProperties", "anyOf", "const", "enum", "items", "maxItems", "maximum", "minItems", "minimum", "oneOf",
    "prefixItems", "properties", "required", "type",
}  # fmt: skip


def faults(schema, value, root, path=""):
    """Yields the faults of a value."""
    if schema is True or schema == {}:
        return
    unknown = schema.keys() - IGNORED - KNOWN
    if unknown:
        sys.exit(f"unknown keywords in a schema: {unknown}")
    if "$ref" in schema:
        yield from faults(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root, path)
    types = schema.get("type", list(TYPES))
    if not any(TYPES[name](value) for name in ([types] if isinstance(types, str) else types)):
        yield f"{path}: {value!r:.80} is not of type {types}"
        return
    for keyword in ("anyOf", "oneOf"):
        forms = [list(faults(form, value, root, path)) for form in schema.get(keyword, [])]
        if forms and all(forms):
            yield from (f"{path}: form {at}: {fault}" for at, form in enumerate(forms) for fault in form)
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r:.80} is not allowed"
    if TYPES["number"](value) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is too small or too large"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} items"
        first = schema.get("prefixItems", [])
        for at, item in enumerate(value):
            rule = first[at] if at < len(first) else schema.get("items", True)
            yield from faults(rule, item, root, f"{path}/{at}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (f"{path}: {key} is missing" for key in schema.get("required", []) if key not in value)
        other = schema.get("additionalProperties", "properties" not in schema)
        for key, member in value.items():
            if key not in properties and other is False:
                yield f"{path}: {key} is not in the schema"
            else:
                yield from faults(properties.get(key, other), member, root, f"{path}/{key}")


def main(directory):
    schemas, counted, faulty = {}, {}, 0
    for path in sorted(pathlib.Path(directory).iterdir()):
        text = path.read_text()
        if not text:
            continue
        command = path.name.split(".")[0]
        if command not in schemas:
            schemas[command] = json.loads((SCHEMAS / f"{command}.json").read_text())
        found = list(faults(schemas[command], json.loads(text), schemas[command]))
        print(*(f"{path.name}: {fault}" for fault in found[:20]), sep="\n", end="\n" if found else "")
        counted[command] = counted.get(command, 0) + 1
        faulty += bool(found)
    print(*(f"{command}: {count} documents" for command, count in counted.items()), sep="\n")
    sys.exit(f"{faulty} documents do not follow their schema" if faulty else 0)


main(sys.argv[1])
