// SPDX-License-Identifier: Apache-2.0

package domain

import "strconv"

// qemuNamespace has what libvirt itself has no element for (https://libvirt.org/kbase/qemu-passthrough-security.html).
const (
	qemuPrefix    = "qemu"
	qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"
)

// overrideMTU has QEMU tell the machine the MTU of a device of vhost-user. For <mtu> libvirt would set that of an interface of the
// kernel's, which there is none, and which virt-launcher may not.
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
