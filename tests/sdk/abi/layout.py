#!/usr/bin/env python3
"""The layout of every ABI type, held still: layout.py check|update LIBRARY FOLDER.

LIBRARY is all_types.c with debug information. FOLDER holds layout.golden (each member: offset, size, type) and
plugin_api.abi (what abidw saw). `check` fails where anything differs, and says whether it is an append. `update` writes
both anew, and refuses whatever is no append (docs/abi.md).
"""
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# Passed by value, embedded, or as elements of an array whose stride both sides know from the header: these never grow.
FROZEN = {"lf_hdr", "lf_str", "lf_sink", "lf_err", "lf_tensor", "lf_named_tensor", "lf_port", "lf_edge", "lf_component",
          "lf_cost", "lf_adapter", "lf_balance_part", "lf_assignment", "lf_range", "lf_place"}


class Types:
    def __init__(self, xml):
        self.by_id = {node.get("id"): node for node in ElementTree.fromstring(xml).iter() if node.get("id")}
        # abidw declares a type where it is first met, and may define it later.
        for node in ElementTree.fromstring(xml).iter("class-decl"):
            if node.get("is-declaration-only") != "yes":
                self.by_id[node.get("id")] = node

    def name(self, type_id):
        node = self.by_id[type_id]
        if node.tag == "pointer-type-def":
            inner = self.by_id[node.get("type-id")]
            if inner.tag == "function-type":
                parameters = ", ".join(self.name(p.get("type-id")) for p in inner.findall("parameter"))
                return f"{self.name(inner.find('return').get('type-id'))} (*)({parameters})"
            return self.name(node.get("type-id")) + " *"
        if node.tag == "qualified-type-def":
            return self.name(node.get("type-id")) + " const" * (node.get("const") == "yes")
        if node.tag == "array-type-def":
            return self.name(node.get("type-id")) + "".join(f"[{r.get('length')}]" for r in node.findall("subrange"))
        return node.get("name")

    def size(self, type_id):
        node = self.by_id[type_id]
        bits = node.get("size-in-bits")
        if bits is None and node.tag in ("typedef-decl", "qualified-type-def"):
            return self.size(node.get("type-id"))
        return int(bits or 64) // 8  # a pointer has no size of its own in the listing

    def structs(self):
        for node in self.by_id.values():
            name = node.get("name", "")
            if node.tag != "class-decl" or node.get("is-declaration-only") == "yes" or not name.startswith("lf_"):
                continue
            if name == "lf_all_types":
                continue
            yield name, [(int(member.get("layout-offset-in-bits")) // 8, self.size(member.find("var-decl").get("type-id")),
                          member.find("var-decl").get("name"), self.name(member.find("var-decl").get("type-id")))
                         for member in node.findall("data-member")]


def layout(library):
    xml = subprocess.run(["abidw", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", str(library)],
                         check=True, capture_output=True, text=True).stdout
    lines = []
    for name, members in sorted(Types(xml).structs()):
        lines.append(name)
        lines += [f"  {offset:4} {size:4}  {member}: {kind}" for offset, size, member, kind in members]
    return "\n".join(lines) + "\n", xml


def parse(text):
    structs, current = {}, None
    for line in text.splitlines():
        if line.startswith("  "):
            structs[current].append(line.strip())
        else:
            current = line
            structs[current] = []
    return structs


def judge(golden, now):
    """(what is wrong, what was appended)"""
    wrong, appended = [], []
    old, new = parse(golden), parse(now)
    for name, members in old.items():
        if name not in new:
            wrong.append(f"{name}: expected it to stay, got none")
            continue
        for i, member in enumerate(members):
            came = new[name][i] if i < len(new[name]) else "nothing"
            if came != member:
                wrong.append(f"{name}: expected member {i} as `{member}`, got `{came}`; members are only appended")
                break
        else:
            extra = new[name][len(members):]
            if extra and name in FROZEN:
                wrong.append(f"{name}: expected no further member, since it travels by value or in arrays, got `{extra[0]}`")
            elif extra:
                appended.append(f"{name}: {len(extra)} appended")
    appended += [f"{name}: new" for name in new if name not in old]
    return wrong, appended


def main():
    command, library, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    golden, baseline = folder / "layout.golden", folder / "plugin_api.abi"
    now, xml = layout(library)
    wrong, appended = judge(golden.read_text() if golden.exists() else "", now)
    if wrong:
        print("the plugin ABI is broken:\n  " + "\n  ".join(wrong) + "\nAppend instead, or start a new interface (docs/abi.md).")
        return 1
    if command == "update":
        golden.write_text(now)
        baseline.write_text(xml)
        print("\n".join(appended) or "nothing new")
        return 0
    if appended:
        print("the plugin ABI has grown: " + "; ".join(appended) +
              f"\nThat is allowed. Hold it still from here on: layout.py update {library} {folder}")
        return 1
    differ = subprocess.run(["abidiff", "--no-show-locs", str(baseline), str(library)], capture_output=True, text=True)
    print(differ.stdout + differ.stderr, end="")
    return 0 if differ.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
