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

// Guest is a virtual machine that sends as a pod.
type Guest struct {
	// Netns and Interface identify the pod's endpoint; the machine has its hardware address.
	Netns, Interface string
	// Socket is the pod's application socket.
	Socket string
	// VhostSocket is the path of the vhost-user socket. RelayListens: the relay listens there, not the machine.
	VhostSocket  string
	RelayListens bool
	// Queues is the number of queue pairs, Processors that of the machine's processors.
	Queues, Processors int
	// Class is the source of a frame's class, from device.Classes.
	Class string
	// Records: frames may have a record with a transmit time in front.
	Records bool
}

// Check returns an error if the description is invalid.
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

// HardwareAddress returns the address of the pod's interface.
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

// Run runs a ktsn-relay-vhost for the machine until ctx ends, and restarts it when it ends. The counters continue across restarts.
func (g *Guest) Run(ctx context.Context, program *Program, log *slog.Logger) error {
	files, err := g.open()
	if err != nil {
		return err
	}
	defer files.close()
	thread := newStarter()
	defer thread.end()
	for pause := time.Duration(0); ; {
		started := time.Now()
		running, err := g.order(program, files).start(thread, log, func() {})
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
		if time.Since(started) > steady {
			pause = 0
		}
		pause = min(max(2*pause, minPause), maxPause)
		log.Warn("the relay is away", "error", running.err, "again", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// guestFiles are the files that the relays of a guest inherit.
type guestFiles struct {
	packet, link, folder *os.File
	counters             *counters
}

func (g *Guest) open() (files *guestFiles, err error) {
	files = &guestFiles{}
	defer func() {
		if err != nil {
			files.close()
		}
	}()
	if files.folder, err = socketFolder(g.Socket); err != nil {
		return nil, err
	}
	if files.packet, err = packetSocket(g.Netns, g.Interface, 0); err != nil {
		return nil, err
	}
	if files.link, err = packetSocket(g.Netns, g.Interface, unix.ETH_P_ALL); err != nil {
		return nil, err
	}
	files.counters, err = newCounters(capture.AllGated)
	return files, err
}

func (f *guestFiles) close() {
	for _, file := range []*os.File{f.packet, f.link, f.folder} {
		if file != nil {
			file.Close()
		}
	}
	if f.counters != nil {
		_ = f.counters.close() // this process has written nothing
	}
}

func (g *Guest) order(program *Program, files *guestFiles) *order {
	o := newOrder(files.packet, files.folder, files.counters, g.Socket)
	o.program = program
	o.pass("--link-fd", files.link)
	o.add("--vhost-socket", g.VhostSocket, "--class", g.Class)
	if !g.RelayListens {
		o.add("--connect")
	}
	if g.Records {
		o.add("--records")
	}
	return o
}
