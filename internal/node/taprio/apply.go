// SPDX-License-Identifier: Apache-2.0

package taprio

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/ethtool"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Apply has the device of the network namespace that it runs in execute the schedule. It can be repeated, with another schedule
// too. When a command fails, the device has the kernel's own queueing discipline again, and a VLAN device that was made is
// removed; the number of the device's queues stays.
func Apply(ctx context.Context, table *control.GateParameterTable, o *Options) (err error) {
	commands, err := Commands(table, o)
	if err != nil {
		return err
	}
	there, err := o.hasVLANDevice()
	if err != nil {
		return err
	}
	touched := false
	for _, command := range commands {
		touched = touched || command[0] == "tc"
		if command.setsQueues() && o.hasQueues() {
			continue
		}
		if there && command.makesLink() {
			command = append(Command{"ip", "link", "set", "dev", o.vlanDevice()}, o.vlanType()...)
		}
		if err := command.run(ctx); err != nil {
			if !touched {
				return err
			}
			return errors.Join(err, o.undo(context.WithoutCancel(ctx), there))
		}
	}
	return nil
}

func (c Command) makesLink() bool { return c[0] == "ip" && c[2] == "add" }

func (c Command) setsQueues() bool { return c[0] == "ethtool" }

// hasQueues tells whether the device sends by enough queues already. The driver may be one without any that can be set; that there
// are too few, taprio says then.
func (o *Options) hasQueues() bool {
	queues, err := ethtool.TransmitQueues(o.Device)
	return errors.Is(err, unix.EOPNOTSUPP) || queues >= o.classes()
}

// run runs it, and says what it said where it fails.
func (c Command) run(ctx context.Context) error {
	said, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is missing, which would run %q: install the package that has it (iproute2, ethtool)", c[0], c.String())
	case err == nil:
		return nil
	}
	return fmt.Errorf("%s: %w: %s", c, err, strings.Join(strings.Fields(string(said)), " "))
}

// hasVLANDevice tells whether there is a VLAN device that is ours to change.
func (o *Options) hasVLANDevice() (bool, error) {
	device, err := netlink.LinkByName(o.Device)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", o.Device, err)
	}
	if o.VLAN == 0 {
		return false, nil
	}
	link, err := netlink.LinkByName(o.vlanDevice())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", o.vlanDevice(), err)
	}
	if vlan, is := link.(*netlink.Vlan); !is || vlan.VlanId != o.VLAN || vlan.ParentIndex != device.Attrs().Index {
		return false, fmt.Errorf("%s is there and is not VLAN %d of %s; remove or rename it", o.vlanDevice(), o.VLAN, o.Device)
	}
	return true, nil
}

// undo takes off what is there of the commands.
func (o *Options) undo(ctx context.Context, vlanWasThere bool) error {
	var all error
	link, err := netlink.LinkByName(o.Device)
	if err != nil {
		return err
	}
	qdiscs, err := netlink.QdiscList(link)
	if err != nil {
		return err
	}
	for _, qdisc := range qdiscs {
		// The kernel's own root has the handle 0.
		if qdisc.Attrs().Parent == netlink.HANDLE_ROOT && qdisc.Attrs().Handle != 0 {
			all = errors.Join(all, Command{"tc", "qdisc", "del", "dev", o.Device, "root"}.run(ctx))
			break
		}
	}
	if o.VLAN == 0 || vlanWasThere {
		return all
	}
	if made, err := netlink.LinkByName(o.vlanDevice()); err == nil {
		all = errors.Join(all, netlink.LinkDel(made))
	}
	return all
}
