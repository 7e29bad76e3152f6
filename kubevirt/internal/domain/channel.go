// SPDX-License-Identifier: Apache-2.0

package domain

import "github.com/beevik/etree"

// AddChannel adds a virtio port with a unix socket that QEMU creates. An existing port of that name stays.
func (d *Domain) AddChannel(name, socket string) {
	devices := child(d.root, "devices")
	for _, target := range devices.FindElements("./channel/target") {
		if target.SelectAttrValue("name", "") == name {
			return
		}
	}
	channel := etree.NewElement("channel")
	channel.CreateAttr("type", "unix")
	element(channel, "source", "mode", "bind", "path", socket)
	element(channel, "target", "type", "virtio", "name", name)
	addDevice(devices, channel)
}

// addDevice adds a device after the last one of its kind, or at the end: libvirt assigns addresses in this order.
func addDevice(devices, element *etree.Element) {
	same := devices.SelectElements(element.Tag)
	if len(same) == 0 {
		devices.AddChild(element)
		return
	}
	devices.InsertChildAt(same[len(same)-1].Index()+1, element)
}
