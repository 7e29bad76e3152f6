// SPDX-License-Identifier: Apache-2.0

package domain

// ShareMemory lets another process map the machine's memory, which vhost-user needs. Huge pages and files are kept.
func (d *Domain) ShareMemory() {
	backing := child(d.root, "memoryBacking")
	source := child(backing, "source")
	if kind := source.SelectAttrValue("type", ""); kind == "" || kind == "anonymous" {
		source.CreateAttr("type", "memfd")
	}
	child(backing, "access").CreateAttr("mode", "shared")
	// The setting of a cell takes precedence.
	for _, cell := range d.root.FindElements("./cpu/numa/cell[@memAccess]") {
		cell.CreateAttr("memAccess", "shared")
	}
}
