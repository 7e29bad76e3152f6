// SPDX-License-Identifier: Apache-2.0

package domain

import "github.com/beevik/etree"

// AddChannel gives the machine a virtio port of that name, at a unix socket that QEMU makes. A port of that name which is there
// already stays.
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

// addDevice puts a device behind the last one of its kind, else behind all: libvirt gives addresses in this order.
func addDevice(devices, element *etree.Element) {
	same := devices.SelectElements(element.Tag)
	if len(same) == 0 {
		devices.AddChild(element)
		return
	}
	devices.InsertChildAt(same[len(same)-1].Index()+1, element)
}
