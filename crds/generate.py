#!/usr/bin/env python3
"""Writes the generated parts of the API.

  generate.py template OPENAPI   the pod template's schema into trainingjobs.yaml, from Kubernetes' own OpenAPI:
                                 `kubectl get --raw /openapi/v3/api/v1 > OPENAPI`
  generate.py derive             what follows from the CRDs: the C++ schema table, the chart's copies, the reference
  generate.py check              exits 1 if `derive` would change a file

The CRDs stay the source of truth: `template` touches only the lines between its marks. Needs python3-yaml.
"""

import json
import pathlib
import sys
import textwrap

import yaml

CRDS = pathlib.Path(__file__).resolve().parent
ROOT = CRDS.parent
KINDS = {"TrainingJob": "trainingjobs.yaml", "WorkerGroup": "workergroups.yaml", "TrainingQueue": "trainingqueues.yaml"}

# ---------------------------------------------------------------------------------------------- pod template

PREFIX = "#/components/schemas/"
METADATA = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "maxProperties": 256, "additionalProperties": {"type": "string"}},
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
        "labels": {"type": "object", "maxProperties": 256, "additionalProperties": {"type": "string"}},
    },
}
INT_OR_STRING = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
QUANTITY = dict(INT_OR_STRING, pattern="^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))"
                                       "(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$")
SPECIAL = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": METADATA,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
}
KEPT = ("type", "format", "x-kubernetes-map-type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
# A template's pod cannot have them, so a field of this name is an error here rather than later.
LEFT_OUT = {"ephemeralContainers"}


def structural(schemas: dict, node: dict) -> dict:
    """A schema of OpenAPI v3 as a structural schema without descriptions, defaults and enums.

    Enums are left to the pod's own validation: a newer Kubernetes has more values than this one.
    """
    if "$ref" in node:
        name = node["$ref"].removeprefix(PREFIX)
        return json.loads(json.dumps(SPECIAL[name])) if name in SPECIAL else structural(schemas, schemas[name])
    if len(node.get("allOf", [])) == 1:
        return structural(schemas, node["allOf"][0])
    result = {key: node[key] for key in KEPT if key in node}
    if node.get("x-kubernetes-list-type") is None and node.get("type") == "array":
        result["x-kubernetes-list-type"] = "atomic"
    if "required" in node:
        result["required"] = node["required"]
    if "items" in node:
        result["items"] = structural(schemas, node["items"])
    if "additionalProperties" in node:
        result["additionalProperties"] = structural(schemas, node["additionalProperties"])
    if "properties" in node:
        result["properties"] = {
            name: structural(schemas, child) for name, child in node["properties"].items() if name not in LEFT_OUT}
    default_list_map_keys(node, result)
    return result


def default_list_map_keys(node: dict, result: dict) -> None:
    """A key of a list-map must be required or have a default: take Kubernetes' own."""
    for key in result.get("x-kubernetes-list-map-keys", []):
        items = result["items"]
        if key in items.get("required", []):
            continue
        items["properties"][key]["default"] = "TCP" if key == "protocol" else ""


def rule(expression: str, message: str, path: str | None = None) -> dict:
    return {"rule": expression, "message": message, **({"fieldPath": path} if path else {})}


def add_own_rules(template: dict) -> None:
    """Bounds that the cost estimate of CEL needs, and what a worker's template may not hold."""
    template["description"] = (
        "The worker's pod: a PodTemplateSpec. Cannot change unless the job is suspended. The launcher is added to it; "
        "the worker container is the one named worker, else the first.")
    template["required"] = ["spec"]
    spec = template["properties"]["spec"]["properties"]
    reserved = "names that begin with pawl- are reserved: rename it"
    for kind, minimum in (("containers", 1), ("initContainers", 0)):
        containers = spec[kind]
        containers["maxItems"] = 16
        if minimum:
            containers["minItems"] = minimum
        container = containers["items"]
        container["properties"]["name"]["maxLength"] = 63
        container["x-kubernetes-validations"] = [rule("!self.name.startsWith('pawl-')", reserved, ".name")]
        env = container["properties"]["env"]
        env["maxItems"] = 512
        env["items"]["properties"]["name"]["maxLength"] = 256
        env["items"]["x-kubernetes-validations"] = [rule(
            "!self.name.startsWith('PAWL_') || self.name in ['PAWL_HEALTH_GATE', 'PAWL_STANDBY_SECONDS']",
            "environment variables that begin with PAWL_ are set by the operator: rename it", ".name")]
    volumes = spec["volumes"]
    volumes["maxItems"] = 128
    volumes["items"]["properties"]["name"]["maxLength"] = 63
    volumes["items"]["x-kubernetes-validations"] = [rule("!self.name.startsWith('pawl-')", reserved, ".name")]
    spec["restartPolicy"]["maxLength"] = 32
    spec["restartPolicy"]["x-kubernetes-validations"] = [rule(
        "self == 'Never'",
        "must be Never: the launcher restarts processes and the operator replaces pods; remove restartPolicy")]


def flow(value) -> str:
    return json.dumps(value, separators=(", ", ": "), ensure_ascii=False)


def template_lines(template: dict, indent: int) -> list[str]:
    """YAML with one line for each field of the pod's spec, so that a new Kubernetes makes a readable diff."""
    spec = template["properties"].pop("spec")
    fields = spec.pop("properties")
    metadata = template["properties"].pop("metadata")
    lines = [f"{key}: {flow(value)}" for key, value in template.items() if key != "properties"]
    lines += ["properties:", f"  metadata: {flow(metadata)}", "  spec:"]
    lines += [f"    {key}: {flow(value)}" for key, value in spec.items()]
    lines += ["    properties:"] + [f"      {name}: {flow(fields[name])}" for name in sorted(fields)]
    return [" " * indent + line for line in lines]


def write_template(openapi: str) -> None:
    document = json.loads(pathlib.Path(openapi).read_text())
    schemas = document["components"]["schemas"]
    template = structural(schemas, schemas["io.k8s.api.core.v1.PodTemplateSpec"])
    add_own_rules(template)
    path = CRDS / KINDS["TrainingJob"]
    lines = path.read_text().split("\n")
    begin = next(i for i, line in enumerate(lines) if line.strip().startswith("# BEGIN generated"))
    end = next(i for i, line in enumerate(lines) if line.strip() == "# END generated")
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    version = document["info"]["version"]
    lines[begin:end] = [" " * indent + f"# BEGIN generated: PodTemplateSpec of Kubernetes {version}",
                        *template_lines(template, indent)]
    path.write_text("\n".join(lines))


# ------------------------------------------------------------------------------------------------- C++ table

def schema_of(kind: str) -> dict:
    crd = yaml.safe_load((CRDS / KINDS[kind]).read_text())
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def without_texts(node):
    """Descriptions and CEL are not needed: validate.cpp holds the rules as functions."""
    if isinstance(node, list):
        return [without_texts(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: without_texts(child) for name, child in value.items()}
        elif key not in ("description", "x-kubernetes-validations", "x-kubernetes-map-type", "anyOf"):
            result[key] = without_texts(value)
    return result


class Sharing:
    """Replaces every subtree that occurs more than once by {"$ref": index}."""

    SHORTEST = 80

    def __init__(self, trees: list):
        self.counts: dict[str, int] = {}
        self.indices: dict[str, int] = {}
        self.definitions: list = []
        for tree in trees:
            self.count(tree)

    def count(self, node) -> None:
        if not isinstance(node, dict):
            return
        text = json.dumps(node, sort_keys=True)
        self.counts[text] = self.counts.get(text, 0) + 1
        if self.counts[text] == 1:
            for child in self.children(node):
                self.count(child)

    @staticmethod
    def children(node: dict):
        yield from node.get("properties", {}).values()
        yield from (node[key] for key in ("items", "additionalProperties") if key in node)

    def share(self, node: dict, is_definition: bool = False):
        text = json.dumps(node, sort_keys=True)
        if not is_definition and len(text) >= self.SHORTEST and self.counts.get(text, 0) > 1:
            if text not in self.indices:
                shared = self.share(node, is_definition=True)
                self.indices[text] = len(self.definitions)
                self.definitions.append(shared)
            return {"$ref": self.indices[text]}
        result = dict(node)
        if "properties" in node:
            result["properties"] = {name: self.share(child) for name, child in node["properties"].items()}
        for key in ("items", "additionalProperties"):
            if key in node:
                result[key] = self.share(node[key])
        return result


def cpp_table() -> str:
    trees = {kind: without_texts(schema_of(kind)) for kind in KINDS}
    sharing = Sharing(list(trees.values()))
    table = {kind: sharing.share(tree) for kind, tree in trees.items()}
    table["definitions"] = sharing.definitions
    text = json.dumps(table, separators=(",", ":"))
    # A break after a comma or brace is white space in JSON as long as it is outside of strings.
    lines, line, is_quoted = [], "", False
    for at, char in enumerate(text):
        line += char
        if char == '"' and text[at - 1] != "\\":
            is_quoted = not is_quoted
        if not is_quoted and char in ",{[" and len(line) >= 104:
            lines.append(line)
            line = ""
    lines.append(line)
    body = "\n".join(lines)
    return textwrap.dedent("""\
        // clang-format off
        // Generated by crds/generate.py from crds/*.yaml; do not edit. The schemas as JSON, equal subtrees shared as {"$ref": n}.
        #include "common/api/schema.h"

        namespace pawl::api {

        const char* const kSchemaTable = R"json(""") + body + textwrap.dedent("""\
        )json";
        // clang-format on

        }  // namespace pawl::api
        """)


# ------------------------------------------------------------------------------------------------- reference

def type_word(node: dict) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if node.get("type") == "array":
        return "list of " + type_word(node["items"])
    if "additionalProperties" in node:
        return "map to " + type_word(node["additionalProperties"])
    return node.get("format") if node.get("format") == "date-time" else node.get("type", "any")


def bounds(node: dict) -> str:
    words = []
    if "enum" in node:
        words.append(", ".join(f"`{value}`" for value in node["enum"]))
    if "minimum" in node or "maximum" in node:
        words.append(f"{node.get('minimum', '')} … {node.get('maximum', '')}".strip())
    words += [f"{label} {node[key]}" for key, label in (("maxLength", "at most characters:"), ("maxItems", "at most items:"),
                                                        ("maxProperties", "at most keys:"), ("pattern", "pattern")) if key in node]
    return "; ".join(words).replace("|", "\\|")


def rows(node: dict, path: str, out: list[str]) -> None:
    for name, child in node.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if where in ("apiVersion", "kind", "metadata"):
            continue
        default = flow(child["default"]) if "default" in child else ("required" if name in node.get("required", []) else "")
        text = " ".join(child.get("description", "").split()).replace("|", "\\|")
        out.append(f"| `{where}` | {type_word(child)} | {default} | {bounds(child)} | {text} |")
        if where == "spec.template":
            continue  # Kubernetes documents its own type
        rows(child, where, out)
        if child.get("type") == "array":
            rows(child["items"], where + "[]", out)


def rules(node: dict, path: str, out: list[str]) -> None:
    for item in node.get("x-kubernetes-validations", []):
        field = (path + item.get("fieldPath", "")).lstrip(".") or "metadata.name"
        out.append(f"- `{field}`: {' '.join(item['message'].split())}")
    for name, child in node.get("properties", {}).items():
        rules(child, f"{path}.{name}", out)
    if "items" in node:
        rules(node["items"], path + "[]", out)


def reference() -> str:
    parts = [textwrap.dedent("""\
        # API reference

        Generated by `crds/generate.py` from `crds/`. Group `pawl.dev`, version `v1alpha1`.

        A field that is not listed here is an error with `kubectl` and `pawl`, which ask for strict validation. The API server
        drops it silently where a client does not send `fieldValidation=Strict`.
        """)]
    for kind in KINDS:
        tree = schema_of(kind)
        table: list[str] = []
        sentences: list[str] = []
        rows(tree, "", table)
        rules(tree, "", sentences)
        parts.append(f"## {kind}\n\n{' '.join(tree['description'].split())}\n\n"
                     "| Field | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n" + "\n".join(table) +
                     "\n\nRules between fields, and what the API server says:\n\n" + "\n".join(sentences) + "\n")
    return "\n".join(parts)


def derived() -> dict[pathlib.Path, str]:
    files = {ROOT / "charts/pawl/crds" / name: (CRDS / name).read_text() for name in KINDS.values()}
    files[ROOT / "common/api/schema_table.cpp"] = cpp_table()
    files[ROOT / "docs/reference/api.md"] = reference()
    return files


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["template"] and len(arguments) == 2:
        write_template(arguments[1])
        return 0
    if arguments not in (["derive"], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    is_stale = False
    for path, text in derived().items():
        if path.exists() and path.read_text() == text:
            continue
        is_stale = True
        if arguments == ["derive"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            print(f"{path.relative_to(ROOT)} is not what crds/generate.py derives from crds/", file=sys.stderr)
    return 1 if is_stale and arguments == ["check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
