// SPDX-License-Identifier: Apache-2.0

package domain

// ShareMemory has another process map the machine's memory, as vhost-user needs. Huge pages and files stay what they are.
func (d *Domain) ShareMemory() {
	backing := child(d.root, "memoryBacking")
	source := child(backing, "source")
	if kind := source.SelectAttrValue("type", ""); kind == "" || kind == "anonymous" {
		source.CreateAttr("type", "memfd")
	}
	child(backing, "access").CreateAttr("mode", "shared")
	// A cell that says so itself goes before.
	for _, cell := range d.root.FindElements("./cpu/numa/cell[@memAccess]") {
		cell.CreateAttr("memAccess", "shared")
	}
}
