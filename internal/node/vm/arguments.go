// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strings"
)

// clockArguments are those of the virtio port by which a guest asks for the node's time.
const clockArguments = "-device virtio-serial -device virtserialport,chardev=%[1]s-clock,name=org.kubernetsn.clock \\\n" +
	"    -chardev socket,id=%[1]s-clock,path=%[2]s,server=on,wait=off"

// Interface are the arguments of QEMU that make the machine's interface.
func (m *Machine) Interface() []string {
	net := fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no,vhost=off", m.Name, m.Tap)
	device := fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,host_mtu=%d", m.Name, m.Address, m.MTU)
	if m.Queues > 1 {
		net += fmt.Sprintf(",queues=%d", m.Queues)
		device += fmt.Sprintf(",mq=on,vectors=%d", 2*m.Queues+2)
	}
	return []string{"-netdev", net, "-device", device}
}

// QEMU are the arguments of QEMU that fit, as lines of a shell.
func (m *Machine) QEMU() string {
	made := m.Interface()
	return strings.Join([]string{fmt.Sprintf("-smp %d", m.VCPUs), strings.Join(made[:2], " "), strings.Join(made[2:], " "), fmt.Sprintf(clockArguments, m.Name, m.Clock)}, " \\\n    ") + "\n"
}

// Libvirt is the same as elements of a domain.
func (m *Machine) Libvirt() string {
	driver := "\n  <driver name='qemu'/>"
	if m.Queues > 1 {
		driver = fmt.Sprintf("\n  <driver name='qemu' queues='%d'/>", m.Queues)
	}
	return fmt.Sprintf(`<vcpu>%d</vcpu>
<interface type='ethernet'>
  <mac address='%s'/>
  <target dev='%s' managed='no'/>
  <model type='virtio'/>
  <mtu size='%d'/>%s
</interface>
<channel type='unix'>
  <source mode='bind' path='%s'/>
  <target type='virtio' name='org.kubernetsn.clock'/>
</channel>
`, m.VCPUs, m.Address, m.Tap, m.MTU, driver, m.Clock)
}

// Guest are commands for the machine.
func (m *Machine) Guest(name string) string {
	var text strings.Builder
	for _, prefix := range m.Prefixes {
		fmt.Fprintf(&text, "ip address add %s dev %s\n", prefix, name)
	}
	fmt.Fprintf(&text, "ip link set %s mtu %d up\nktsn-guest run --interface %s\n", name, m.MTU, name)
	return text.String()
}
