// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// Manager is a program that manages network devices.
type Manager struct {
	Name string
	// Path is the path on the node of the file with the setting Content, by which the program leaves devices named tsn* alone.
	Path, Content string
	// Reload is the command by which the program reads the file.
	Reload string
	// state is the folder of its records of devices, by their index; managed are the lines of those that it manages.
	state   string
	managed []string
}

const writtenBy = "# Installed by KuberneTSN (agent.unmanagedDevices of its chart), and removed with it.\n"

// Managers are the known managers.
var Managers = []Manager{
	{
		Name: "NetworkManager", Path: "/etc/NetworkManager/conf.d/90-kubernetsn.conf", Reload: "systemctl reload NetworkManager",
		Content: writtenBy + "[keyfile]\nunmanaged-devices+=interface-name:tsn*\n",
		state:   "run/NetworkManager/devices", managed: []string{"managed=true"},
	},
	{
		Name: "systemd-networkd", Path: "/etc/systemd/network/05-kubernetsn.network", Reload: "networkctl reload",
		Content: writtenBy + "[Match]\nName=tsn*\n[Link]\nUnmanaged=yes\n",
		state:   "run/systemd/netif/links", managed: []string{"ADMIN_STATE=configuring", "ADMIN_STATE=configured", "ADMIN_STATE=failed", "ADMIN_STATE=linger"},
	},
}

// managers checks whether a manager manages devices of the networks, by its own records.
func (n *Node) managers() *Finding {
	if n.Host == nil {
		return nil
	}
	for i := range n.Networks {
		for _, name := range []string{n.Networks[i].Bridge, n.Networks[i].Tunnel} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				continue
			}
			manager := n.managerOf(link.Attrs().Index)
			if manager == nil {
				continue
			}
			finding := &Finding{
				ReasonDevicesManaged, false, fmt.Sprintf("%s manages %s, and may change or remove it: it has no %s", manager.Name, name, manager.Path),
				"set agent.unmanagedDevices=Install of the chart, or write that file as in docs/guide/install.md; then `" + manager.Reload + "`",
			}
			if _, err := fs.Stat(n.Host, strings.TrimPrefix(manager.Path, "/")); err == nil {
				finding.Text = fmt.Sprintf("%s manages %s, and may change or remove it: it has not read %s, or another setting has precedence",
					manager.Name, name, manager.Path)
				finding.Remedy = "`" + manager.Reload + "`"
			}
			return finding
		}
	}
	return nil
}

// managerOf returns the program that manages a device, nil if there is none.
func (n *Node) managerOf(index int) *Manager {
	for i := range Managers {
		state, _ := fs.ReadFile(n.Host, path.Join(Managers[i].state, strconv.Itoa(index)))
		for _, line := range Managers[i].managed {
			if strings.Contains("\n"+string(state)+"\n", "\n"+line+"\n") {
				return &Managers[i]
			}
		}
	}
	return nil
}
