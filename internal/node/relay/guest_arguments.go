// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"net"
	"strings"
)

// QEMU returns the arguments of QEMU for the machine, a line each. The memory must be shared; SIZE stands for its size.
func (g *Guest) QEMU(address net.HardwareAddr) []string {
	listens := ",server=on"
	if g.RelayListens {
		listens = ""
	}
	device := "-device virtio-net-pci,netdev=tsn,mac=" + address.String()
	if g.Queues > 1 {
		// Two interrupts for each pair, one for the control queue, one for configuration changes.
		device += fmt.Sprintf(",mq=on,vectors=%d", 2*g.Queues+2)
	}
	return []string{
		"-object memory-backend-memfd,id=mem,size=SIZE,share=on -numa node,memdev=mem",
		fmt.Sprintf("-chardev socket,id=tsn,path=%s%s", g.VhostSocket, listens),
		fmt.Sprintf("-netdev vhost-user,id=tsn,chardev=tsn,queues=%d", g.Queues),
		device,
	}
}

// Libvirt returns the elements of a libvirt domain for the machine.
func (g *Guest) Libvirt(address net.HardwareAddr) string {
	mode := "server"
	if g.RelayListens {
		mode = "client"
	}
	return strings.Join([]string{
		"<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>",
		"<interface type='vhostuser'>",
		fmt.Sprintf("  <mac address='%s'/>", address),
		fmt.Sprintf("  <source type='unix' path='%s' mode='%s'/>", escapeXML(g.VhostSocket), mode),
		"  <model type='virtio'/>",
		fmt.Sprintf("  <driver queues='%d'/>", g.Queues),
		"</interface>",
	}, "\n")
}

func escapeXML(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", "'", "&apos;").Replace(text)
}
