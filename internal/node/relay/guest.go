// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Guest is a virtual machine that sends in the name of a pod.
type Guest struct {
	// Netns and Interface are those of the pod's endpoint, whose hardware address the machine has.
	Netns, Interface string
	// Socket is the pod's application socket.
	Socket string
	// VhostSocket is the socket of vhost-user. RelayListens says that the relay is the one who listens, and not the machine.
	VhostSocket  string
	RelayListens bool
	// Queues are pairs, of Processors of the machine.
	Queues, Processors int
	// Class is one of device.Classes.
	Class string
	// Records says that frames may have a record with a transmit time in front.
	Records bool
}

// Check says what is wrong with it.
func (g *Guest) Check() error {
	switch {
	case g.Queues < 1 || g.Queues > device.MaxQueues:
		return fmt.Errorf("%d pairs of queues: a virtual machine has 1 to %d", g.Queues, device.MaxQueues)
	case g.Queues > 1 && g.Processors < 2:
		return fmt.Errorf("%d pairs of queues with %d processor: several need a virtual machine with two processors or more", g.Queues,
			g.Processors)
	case !slices.Contains(device.Classes, g.Class):
		return fmt.Errorf("class %q is none of %v", g.Class, device.Classes)
	case g.Class == device.ClassQueue && g.Queues == 1:
		return errors.New("the class is by queue, and there is one pair of queues: all frames would be of one class; give it more")
	case !filepath.IsAbs(g.VhostSocket):
		return fmt.Errorf("%q is no absolute path of the socket of vhost-user", g.VhostSocket)
	}
	return nil
}

// HardwareAddress is that of the pod's interface.
func (g *Guest) HardwareAddress() (address net.HardwareAddr, err error) {
	err = ns.WithNetNSPath(g.Netns, func(ns.NetNS) error {
		link, err := net.InterfaceByName(g.Interface)
		if err != nil {
			return fmt.Errorf("look for %s in the pod: %w", g.Interface, err)
		}
		address = link.HardwareAddr
		return nil
	})
	return address, err
}

// Run runs a ktsn-relay-vhost for the machine, starts it again when it ends, and goes on until ctx ends. Counters go on from one to
// the next.
func (g *Guest) Run(ctx context.Context, program *Program, log *slog.Logger) error {
	given, err := g.open()
	if err != nil {
		return err
	}
	defer given.close()
	on := newStarter()
	defer on.end()
	for pause := time.Duration(0); ; {
		begun := time.Now()
		running, err := g.order(program, given).start(on, log, func() {})
		if err != nil {
			return err
		}
		log.Info("the relay has been started", "pid", running.command.Process.Pid)
		select {
		case <-ctx.Done():
			running.end()
			return nil
		case <-running.ended:
		}
		if time.Since(begun) > steady {
			pause = 0
		}
		pause = min(max(2*pause, leastPause), mostPause)
		log.Warn("the relay is away", "error", running.err, "again", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// guestFiles are what the relays of a guest are given.
type guestFiles struct {
	packet, link, folder *os.File
	counters             *counters
}

func (g *Guest) open() (made *guestFiles, err error) {
	made = &guestFiles{}
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	if made.folder, err = socketFolder(g.Socket); err != nil {
		return nil, err
	}
	if made.packet, err = packetSocket(g.Netns, g.Interface, 0); err != nil {
		return nil, err
	}
	if made.link, err = packetSocket(g.Netns, g.Interface, unix.ETH_P_ALL); err != nil {
		return nil, err
	}
	made.counters, err = newCounters(capture.AllGated)
	return made, err
}

func (f *guestFiles) close() {
	for _, file := range []*os.File{f.packet, f.link, f.folder} {
		if file != nil {
			file.Close()
		}
	}
	if f.counters != nil {
		_ = f.counters.close() // nothing was written by this process
	}
}

func (g *Guest) order(program *Program, given *guestFiles) *order {
	made := newOrder(given.packet, given.folder, given.counters, g.Socket)
	made.program = program
	made.pass("--link-fd", given.link)
	made.add("--vhost-socket", g.VhostSocket, "--class", g.Class)
	if !g.RelayListens {
		made.add("--connect")
	}
	if g.Records {
		made.add("--records")
	}
	return made
}
