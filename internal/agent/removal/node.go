// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/cni"
	"github.com/kubernetsn/kubernetsn/internal/overlay"
)

// Node is what is removed from a node.
type Node struct {
	// StateDir is tsn-cni's, RunDir ktsnd's, IPAMDir where host-local remembers addresses.
	StateDir, RunDir, IPAMDir string
	// PluginDir has the IPAM plugin, ConfDir the networks' configurations.
	PluginDir, ConfDir string
	Installed          *install.Node
	// Further are folders and sockets that are the project's alone.
	Further []string
	// Out is told what was removed.
	Out io.Writer
}

// patience is how long to wait for network plugins at work.
const patience = 10 * time.Second

// Clean removes what was installed. It refuses as long as something is attached.
func (n *Node) Clean(ctx context.Context) error {
	kernel, err := overlay.Open(n.StateDir, patience)
	if err != nil {
		return err
	}
	defer kernel.Close()
	if err := n.detachGone(kernel); err != nil {
		return err
	}
	peers, err := kernel.Peers()
	if err != nil {
		return err
	}
	for _, peer := range peers {
		if err := kernel.PeerDel(ctx, peer.VNI, peer.Address, nil); err != nil {
			return err
		}
	}
	networks, err := n.removeInstalled()
	if err != nil {
		return err
	}
	var all error
	for _, network := range networks {
		all = errors.Join(all, RemoveIPAM(filepath.Join(n.IPAMDir, network)))
	}
	for _, path := range append([]string{n.StateDir, n.RunDir}, n.Further...) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			all = errors.Join(all, fmt.Errorf("remove %s: %w", path, err))
			continue
		}
		fmt.Fprintf(n.Out, "removed %s\n", path)
	}
	return all
}

// detachGone detaches what is left of containers that are gone, and refuses when there are others.
func (n *Node) detachGone(kernel *overlay.Node) error {
	attached, err := cni.List(n.StateDir, kernel)
	if err != nil {
		return err
	}
	for _, one := range attached {
		if !one.Gone {
			return fmt.Errorf("interface %s of container %s is attached to network %s; remove its pod first", one.Interface, one.ContainerID, one.Network)
		}
		config, err := os.ReadFile(filepath.Join(n.ConfDir, one.Network+confSuffix))
		if err != nil {
			return fmt.Errorf("detach container %s, which is gone: %w", one.ContainerID, err)
		}
		if err := cni.Detach(&one.Attachment, config, n.PluginDir); err != nil {
			return fmt.Errorf("detach container %s, which is gone: %w", one.ContainerID, err)
		}
	}
	return nil
}

// confSuffix ends the names of configurations.
const confSuffix = ".conf"

// removeInstalled removes the files that the agent installed, and returns the names of the networks among them.
func (n *Node) removeInstalled() ([]string, error) {
	installed, err := n.Installed.Installed()
	if err != nil {
		return nil, err
	}
	var networks []string
	for _, path := range installed {
		if err := n.Installed.Remove(path); err != nil {
			return nil, err
		}
		fmt.Fprintf(n.Out, "removed %s\n", path)
		if name, ok := strings.CutSuffix(filepath.Base(path), confSuffix); ok && filepath.Dir(path) == n.ConfDir {
			networks = append(networks, name)
		}
	}
	return networks, nil
}

// RemoveIPAM removes host-local's folder of a network, unless an address of it is given away.
func RemoveIPAM(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at given addresses: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != "lock" && !strings.HasPrefix(entry.Name(), "last_reserved_ip.") {
			return fmt.Errorf("address %s in %s is given away; remove its pod first, or the file when there is none", entry.Name(), dir)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("forget given addresses: %w", err)
	}
	return nil
}
