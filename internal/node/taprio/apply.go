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

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Apply makes a device of the current network namespace execute the schedule. It can be repeated, also with another schedule. When a
// command fails, it restores the kernel's default queueing discipline and removes a VLAN device that it created; the number of the
// device's queues stays.
func Apply(ctx context.Context, table *control.GateParameterTable, o *Options) (err error) {
	commands, err := Commands(table, o)
	if err != nil {
		return err
	}
	exists, err := o.hasVLANDevice()
	if err != nil {
		return err
	}
	touched := false
	for _, command := range commands {
		touched = touched || command[0] == "tc"
		if command.setsQueues() && o.hasQueues() {
			continue
		}
		if exists && command.makesLink() {
			command = append(Command{"ip", "link", "set", "dev", o.vlanDevice()}, o.vlanType()...)
		}
		if err := command.run(ctx); err != nil {
			if !touched {
				return err
			}
			return errors.Join(err, o.undo(context.WithoutCancel(ctx), exists))
		}
	}
	return nil
}

func (c Command) makesLink() bool { return c[0] == "ip" && c[2] == "add" }

func (c Command) setsQueues() bool { return c[0] == "ethtool" }

// hasQueues reports whether the device has enough transmit queues. It returns true for a driver whose queues cannot be set; taprio
// fails then if there are too few.
func (o *Options) hasQueues() bool {
	queues, err := netdev.TransmitQueues(o.Device)
	return errors.Is(err, unix.EOPNOTSUPP) || queues >= o.classes()
}

// run runs the command. Its error contains the output.
func (c Command) run(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is missing, which would run %q: install the package that has it (iproute2, ethtool)", c[0], c.String())
	case err == nil:
		return nil
	}
	return fmt.Errorf("%s: %w: %s", c, err, strings.Join(strings.Fields(string(output)), " "))
}

// hasVLANDevice reports whether the VLAN device exists. It fails if another device has its name.
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
	if vlan, ok := link.(*netlink.Vlan); !ok || vlan.VlanId != o.VLAN || vlan.ParentIndex != device.Attrs().Index {
		return false, fmt.Errorf("%s exists and is not VLAN %d of %s; remove or rename it", o.vlanDevice(), o.VLAN, o.Device)
	}
	return true, nil
}

// undo undoes the commands that were run.
func (o *Options) undo(ctx context.Context, vlanExisted bool) error {
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
		// The kernel's default root has the handle 0.
		if qdisc.Attrs().Parent == netlink.HANDLE_ROOT && qdisc.Attrs().Handle != 0 {
			all = errors.Join(all, Command{"tc", "qdisc", "del", "dev", o.Device, "root"}.run(ctx))
			break
		}
	}
	if o.VLAN == 0 || vlanExisted {
		return all
	}
	if created, err := netlink.LinkByName(o.vlanDevice()); err == nil {
		all = errors.Join(all, netlink.LinkDel(created))
	}
	return all
}
