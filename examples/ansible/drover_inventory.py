#!/usr/bin/env python3
"""An Ansible inventory of the hosts that drover knows.

  ansible-inventory -i drover_inventory.py --graph
  DROVER_SELECTOR='role=web,zone!=b' ansible -i drover_inventory.py all -m ping

The script runs "drover hosts -o json", so the environment of the command line (DROVER_SERVER, DROVER_APP_CODE,
DROVER_APP_SECRET) says which server it asks. DROVER_SELECTOR chooses hosts; DROVER names another program. A host is
in the group "online" or "away", in "label_KEY_VALUE" for each label and in "fact_NAME_VALUE" for some facts.
"""

import argparse
import json
import os
import re
import subprocess
import sys


def hosts():
    """Return the hosts as drover lists them."""
    command = [os.environ.get("DROVER", "drover"), "hosts", "-o", "json"]
    if "DROVER_SELECTOR" in os.environ:
        command += ["--selector", os.environ["DROVER_SELECTOR"]]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}; DROVER names the program")
    if result.returncode != 0:  # 4: no host matches DROVER_SELECTOR; drover says so
        sys.exit(result.returncode)
    return json.loads(result.stdout or "[]")


def group(*parts):
    """Return the name of a group: Ansible takes letters, digits and _."""
    return re.sub(r"[^A-Za-z0-9_]", "_", "_".join(parts))


def inventory(hosts):
    """Return the inventory in the form that Ansible reads."""
    groups, variables = {}, {}
    for host in hosts:
        name, labels, facts = host["id"], host.get("labels", {}), host.get("facts", {})
        names = ["online" if host["online"] else "away"]
        names += [group("label", key, value) for key, value in labels.items()]
        names += [group("fact", key, facts[key]) for key in ("os", "os_version", "arch") if key in facts]
        names += [group("fact", key, value) for key, value in facts.get("own", {}).items()]
        for each in names:
            groups.setdefault(each, {"hosts": []})["hosts"].append(name)
        variables[name] = {
            "ansible_host": host["ip"],
            "drover_area": host["cloud"],
            "drover_labels": labels,
            "drover_facts": facts,
        }
    return {
        "_meta": {"hostvars": variables},
        "all": {"hosts": sorted(variables), "children": sorted(groups)},
        **groups,
    }


def main():
    """Answer --list, or --host NAME."""
    parser = argparse.ArgumentParser(description="an Ansible inventory of the hosts that drover knows")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--host")
    args = parser.parse_args()
    answer = inventory(hosts())
    if args.host:
        answer = answer["_meta"]["hostvars"].get(args.host, {})
    json.dump(answer, sys.stdout, indent=2, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
