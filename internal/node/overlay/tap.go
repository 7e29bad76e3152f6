// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

const (
	// tapPrefix opens the name of every tap.
	tapPrefix = "ktsnr"
	// tapQueueFrames is how many frames wait in a tap that nobody reads.
	tapQueueFrames = 1000
	// maxTapMTU is the largest of a tap: 65535 less an Ethernet header.
	maxTapMTU = 65521
	// tunDevice makes devices whose frames a program reads.
	tunDevice = "/dev/net/tun"
)

// TapName is the name of the device from which the attachment's relay reads.
func (a *Attachment) TapName() string {
	sum := sha256.Sum256([]byte(a.PortName()))
	return tapPrefix + hex.EncodeToString(sum[:5])
}

// Tap is a device whose frames are read from File. The kernel removes it when the last descriptor of File is closed.
type Tap struct {
	File  *os.File
	Name  string
	Index int
}

// Close closes this program's descriptor.
func (t *Tap) Close() error { return t.File.Close() }

// MakeTap makes the tap of an attachment, up, on no bridge, for frames as long as the port's with a record. The kernel
// segments what is sent to it and completes checksums, because no offload is asked for.
func (n *Node) MakeTap(attachment *Attachment) (_ *Tap, err error) {
	port, err := n.link(attachment.PortName())
	if err == nil && port == nil {
		err = fmt.Errorf("there is no %s", attachment.PortName())
	}
	if err != nil {
		return nil, err
	}
	tap := &Tap{Name: attachment.TapName()}
	if tap.File, err = openTap(tap.Name); err != nil {
		return nil, err
	}
	if err := n.finishTap(tap, tapMTU(port.Attrs().MTU)); err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	return tap, nil
}

// tapMTU is that of the tap of a port.
func tapMTU(portMTU int) int { return min(portMTU+capture.RecordBytes, maxTapMTU) }

// openTap makes the device in the network namespace of the calling thread. Blocking is what the reader decides: the Go
// runtime must not, because the file's status is common to both.
func openTap(name string) (*os.File, error) {
	descriptor, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("open %s: %w: the kernel has no module tun, or the container no such device", tunDevice, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(descriptor, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(explainTap(name, err), unix.Close(descriptor))
	}
	return os.NewFile(uintptr(descriptor), name), nil
}

func explainTap(name string, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("make %s: %w: another program serves the node's captured pods; end it (ktsn-agent, `ktsn node relay`)", name, err)
	}
	return fmt.Errorf("make %s: %w", name, err)
}

func (n *Node) finishTap(tap *Tap, mtuBytes int) error {
	link, err := n.existing(tap.Name)
	if err != nil {
		return err
	}
	tap.Index = link.Attrs().Index
	if err := withoutIPv6(tap.Name); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mark", func() error { return n.kernel.LinkSetGroup(link, LinkGroup) }},
		{"set the MTU of", func() error { return n.kernel.LinkSetMTU(link, mtuBytes) }},
		{"set the queue of", func() error { return n.kernel.LinkSetTxQLen(link, tapQueueFrames) }},
		{"set up", func() error { return n.kernel.LinkSetUp(link) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s %s: %w", step.what, tap.Name, err)
		}
	}
	return nil
}

// TapDropped counts the frames for which a tap had no room.
func (n *Node) TapDropped(tap *Tap) (uint64, error) {
	link, err := n.link(tap.Name)
	if err == nil && (link == nil || link.Attrs().Index != tap.Index) {
		err = fmt.Errorf("%s has disappeared", tap.Name)
	}
	if err != nil || link.Attrs().Statistics == nil {
		return 0, err
	}
	return link.Attrs().Statistics.TxDropped, nil
}

// PortIndex is the number of the attachment's port, 0 if there is none.
func (n *Node) PortIndex(attachment *Attachment) (int, error) {
	link, err := n.link(attachment.PortName())
	if err != nil || link == nil || !ours(link) {
		return 0, err
	}
	return link.Attrs().Index, nil
}
