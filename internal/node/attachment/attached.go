// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"io/fs"
	"os"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Attached is an attachment of the node, by record or kernel.
type Attached struct {
	overlay.Attachment
	VNI uint32
	// Gone tells that the container's network namespace does not exist any more.
	Gone bool
}

// List returns all attachments of the node.
func List(stateDir string, node *overlay.Node) ([]Attached, error) {
	made, err := recordStore{stateDir}.all()
	if err != nil {
		return nil, err
	}
	found, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	var all []Attached
	known := map[string]bool{}
	for _, r := range made {
		_, err := os.Stat(r.Netns)
		all = append(all, Attached{r.Attachment, r.VNI, errors.Is(err, fs.ErrNotExist)})
		known[r.PortName()] = true
	}
	for _, port := range found {
		if !known[port.PortName()] {
			all = append(all, Attached{port.Attachment, port.VNI, netnsPath(port.NetnsID) == ""})
		}
	}
	return all, nil
}

// OfLinks tells whether it is a link, or the sandbox of a pod with links. DetachLinks detaches these.
func (a *Attached) OfLinks() bool { return a.Network == SandboxNetwork || a.Network == LinkNetwork }
