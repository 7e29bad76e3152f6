// SPDX-License-Identifier: Apache-2.0

package domain

import "strconv"

// qemuNamespace is for settings without an element of libvirt
// (https://libvirt.org/kbase/qemu-passthrough-security.html).
const (
	qemuPrefix    = "qemu"
	qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"
)

// overrideMTU makes QEMU tell the machine the MTU of a vhost-user device. For <mtu> libvirt would set the MTU of a
// kernel interface, which does not exist and which virt-launcher may not change.
func (d *Domain) overrideMTU(i *Interface) {
	d.root.CreateAttr("xmlns:"+qemuPrefix, qemuNamespace)
	override := child(d.root, qemuPrefix+":override")
	for _, old := range override.SelectElements(qemuPrefix + ":device") {
		if old.SelectAttrValue("alias", "") == aliasPrefix+i.Name {
			override.RemoveChild(old)
		}
	}
	device := element(override, qemuPrefix+":device", "alias", aliasPrefix+i.Name)
	element(element(device, qemuPrefix+":frontend"), qemuPrefix+":property", "name", "host_mtu", "type", "unsigned", "value", strconv.Itoa(i.MTU))
}
