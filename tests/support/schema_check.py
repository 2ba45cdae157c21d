#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema_check.py DIR FILE...: is each file of JSON what the schema of its form in DIR says?

A form peal.NAME/1 is in DIR/peal-NAME.schema.json. Programs may be told more later, so schemas allow
fields that they do not name; here those are wrong too, unless a schema speaks of them in general.
"""
import json
import os
import sys

import jsonschema


def closed(schema):
    """The same schema, where an object has no fields but those that are named."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        same.setdefault("additionalProperties", False)
    return same


def main():
    folder, files, wrong = sys.argv[1], sys.argv[2:], 0
    for file in files:
        with open(file, encoding="utf-8") as text:
            value = json.load(text)
        name, version = value["schema"].split("/")
        with open(os.path.join(folder, name.replace(".", "-") + ".schema.json"),
                  encoding="utf-8") as text:
            schema = json.load(text)
        jsonschema.Draft7Validator.check_schema(schema)
        if schema["properties"]["schema"] != {"const": name + "/" + version}:
            wrong += 1
            print("%s: its schema is of another form" % value["schema"])
        for error in jsonschema.Draft7Validator(closed(schema)).iter_errors(value):
            wrong += 1
            print("%s: %s: %s" % (value["schema"], "/".join(map(str, error.absolute_path)),
                                  error.message[:300]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
