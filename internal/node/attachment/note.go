// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// note is what the kernel keeps with the node's end of an interface of a virtual machine, because nothing else that is left without a
// record tells it: kind, queues, class, owner and Kata's folder of its device, what is captured (no program does at one of vhost-user),
// and the folder of the pods' sockets, which may have commas.
func (s *Spec) note() string {
	if !s.Device.Exists() {
		return ""
	}
	of := s.Device
	return strings.Join([]string{of.Kind, strconv.Itoa(of.Queues), of.Class, strconv.Itoa(of.Owner), of.DAN, s.Capture.String(), s.SocketDir}, ",")
}

// takeNote gives a record what note wrote.
func (r *Record) takeNote(note string) error {
	const parts = 7
	read := strings.SplitN(note, ",", parts)
	if len(read) != parts {
		return fmt.Errorf("the note %q of a virtual machine's interface cannot be read", note)
	}
	asked := map[string]string{}
	for i, name := range device.Names {
		if read[i] != "" {
			asked[name] = read[i]
		}
	}
	var err error
	if r.Device, err = device.Parse(asked); err != nil {
		return fmt.Errorf("the note of a virtual machine's interface: %w", err)
	}
	if r.Capture, err = capture.ParseMode(read[parts-2]); err != nil {
		return fmt.Errorf("the note of a virtual machine's interface: %w", err)
	}
	if dir := read[parts-1]; dir != "" {
		r.AppSocket = filepath.Join(dir, r.Identity, appSocketName)
	}
	if r.Device.IsOfRuntime() {
		r.Socket = r.AppSocket
	}
	return nil
}

// Noted is what the note of a port says.
type Noted struct {
	// Device is that of the virtual machine that has the interface; none if the port has no note.
	Device device.Device
	// VhostSocket is where it is served if it is of vhost-user.
	VhostSocket string
}

// ReadNote reads that of a port.
func ReadNote(port *overlay.Found) Noted {
	read := Record{Attachment: port.Attachment}
	if port.Note == "" || read.takeNote(port.Note) != nil {
		return Noted{}
	}
	return Noted{Device: read.Device, VhostSocket: vhostSocket(read.AppSocket, read.Interface)}
}
