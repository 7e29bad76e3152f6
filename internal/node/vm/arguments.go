// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// clockArguments are the arguments of the virtio port through which a guest reads the node's time.
const clockArguments = "-device virtio-serial -device virtserialport,chardev=%[1]s-clock,name=org.kubernetsn.clock \\\n" +
	"    -chardev socket,id=%[1]s-clock,path=%[2]s,server=on,wait=off"

// sharedMemory lets a relay of vhost-user read the queues.
const sharedMemory = "memory-backend-memfd,id=%s-memory,size=SIZE,share=on"

// Interface returns QEMU's arguments for the machine's interface. With vhost-user the machine's memory must also be shared.
func (m *Machine) Interface() []string {
	argument := "virtio-net-pci,netdev=" + m.Name + ",mac=" + m.Address + fmt.Sprintf(",host_mtu=%d", m.MTU)
	if m.Queues > 1 {
		// Two interrupts for each pair, one for the control queue, one for configuration changes.
		argument += fmt.Sprintf(",mq=on,vectors=%d", 2*m.Queues+2)
	}
	if m.Device == device.VhostUser {
		return []string{
			"-chardev", fmt.Sprintf("socket,id=%s-vhost,path=%s,reconnect=1", m.Name, m.Socket),
			"-netdev", fmt.Sprintf("vhost-user,id=%[1]s,chardev=%[1]s-vhost,queues=%[2]d", m.Name, m.Queues), "-device", argument,
		}
	}
	net := fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no,vhost=off", m.Name, m.Tap)
	if m.Queues > 1 {
		net += fmt.Sprintf(",queues=%d", m.Queues)
	}
	return []string{"-netdev", net, "-device", argument}
}

// QEMU returns QEMU's arguments for the machine, as lines of a shell command.
func (m *Machine) QEMU() string {
	lines := []string{fmt.Sprintf("-smp %d", m.VCPUs)}
	if m.Device == device.VhostUser {
		lines = append(lines, "-object "+fmt.Sprintf(sharedMemory, m.Name)+" -numa node,memdev="+m.Name+"-memory")
	}
	arguments := m.Interface()
	for i := 0; i < len(arguments); i += 2 {
		lines = append(lines, arguments[i]+" "+arguments[i+1])
	}
	return strings.Join(append(lines, fmt.Sprintf(clockArguments, m.Name, m.Clock)), " \\\n    ") + "\n"
}

// Libvirt returns the elements of a libvirt domain for the machine.
func (m *Machine) Libvirt() string {
	queues := ""
	if m.Queues > 1 {
		queues = fmt.Sprintf(" queues='%d'", m.Queues)
	}
	return fmt.Sprintf(`<vcpu>%d</vcpu>
%s<channel type='unix'>
  <source mode='bind' path='%s'/>
  <target type='virtio' name='org.kubernetsn.clock'/>
</channel>
`, m.VCPUs, m.libvirtInterface(queues), m.Clock)
}

func (m *Machine) libvirtInterface(queues string) string {
	if m.Device == device.VhostUser {
		return fmt.Sprintf(`<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
<interface type='vhostuser'>
  <mac address='%s'/>
  <source type='unix' path='%s' mode='client'>
    <reconnect enabled='yes' timeout='1'/>
  </source>
  <model type='virtio'/>
  <mtu size='%d'/>
  <driver%s/>
</interface>
`, m.Address, m.Socket, m.MTU, queues)
	}
	return fmt.Sprintf(`<interface type='ethernet'>
  <mac address='%s'/>
  <target dev='%s' managed='no'/>
  <model type='virtio'/>
  <mtu size='%d'/>
  <driver name='qemu'%s/>
</interface>
`, m.Address, m.Tap, m.MTU, queues)
}

// Guest returns the commands to run in the machine for the interface called name.
func (m *Machine) Guest(name string) string {
	var text strings.Builder
	for _, prefix := range m.Prefixes {
		fmt.Fprintf(&text, "ip address add %s dev %s\n", prefix, name)
	}
	fmt.Fprintf(&text, "ip link set %s mtu %d up\nktsn-guest run --interface %s\n", name, m.MTU, name)
	return text.String()
}
