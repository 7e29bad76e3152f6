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
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Node removes the project from a node.
type Node struct {
	// StateDir is tsn-cni's state folder, RunDir ktsnd's, IPAMDir host-local's folder of allocated addresses.
	StateDir, RunDir, IPAMDir string
	// PluginDir has the IPAM plugin, ConfDir the network configurations.
	PluginDir, ConfDir string
	Installed          *install.Node
	// Further are other folders and sockets of the project.
	Further []string
	// Wait is how long to wait for runtimes to detach ended pods. They need no other program for that.
	Wait time.Duration
	// NoPods: no pod of the cluster is known to be on a network. Attachments that remain after Wait are detached, except those of Pods.
	NoPods bool
	// Pods are the UIDs of the node's pods, some of which may be on a network in a way that the cluster's objects do not show.
	Pods []string
	// Teardown tears down Open vSwitch; nil without one.
	Teardown func(context.Context) error
	// Out gets the paths of removed files.
	Out io.Writer
}

// lockTimeout is how long to wait for running network plugins, and for other programs that change the node's networks.
const lockTimeout = 10 * time.Second

// Clean removes everything that was installed. It refuses, before it removes anything, while pods have volumes, or are attached (see
// NoPods). The records go last, so that a failed attempt can be repeated.
func (n *Node) Clean(ctx context.Context) error {
	kernel, err := overlay.Open(n.StateDir, lockTimeout)
	if err != nil {
		return err
	}
	defer kernel.Close()
	if err := n.refuseVolumes(); err != nil {
		return err
	}
	folders, err := n.awaitDetached(ctx, kernel)
	if err != nil {
		return err
	}
	// Before the peers: this container may detach the program, but not write its maps on all nodes.
	if _, err := receive.Detach(receive.DefaultDir); err != nil {
		return err
	}
	peers, err := kernel.Peers()
	if err != nil {
		return err
	}
	var gone []overlay.Change
	for _, peer := range peers {
		gone = append(gone, overlay.Change{Peer: peer, Gone: true})
	}
	if err := kernel.ChangePeers(ctx, gone, nil); err != nil {
		return err
	}
	if err := clearKeys(); err != nil {
		return err
	}
	// Without bridges, tunnels and peers this removes the filter.
	if _, err := kernel.Guard(ctx); err != nil {
		return err
	}
	if n.Teardown != nil {
		if err := n.Teardown(ctx); err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(folders, []string{n.RunDir}, n.Further) {
		if err := n.removeAll(path); err != nil {
			return err
		}
	}
	if err := n.removeInstalled(); err != nil {
		return err
	}
	// This includes the list of installed files.
	return n.removeAll(n.StateDir)
}

// clearKeys removes keys and policies of encrypted networks from the kernel, with any port.
func clearKeys() error {
	kernel, err := xfrm.Open(overlay.EncryptedPort)
	if err == nil {
		err = kernel.Clear()
		kernel.Close()
	}
	if errors.Is(err, xfrm.ErrUnavailable) {
		return nil // the kernel cannot encrypt and has no keys
	}
	return err
}

func (n *Node) removeAll(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	fmt.Fprintf(n.Out, "removed %s\n", path)
	return nil
}

// refuseVolumes fails if a pod has a volume according to the agent's records: its socket and library are in RunDir.
func (n *Node) refuseVolumes() error {
	volumes, err := (&csi.Volumes{Dir: n.RunDir}).All()
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		return fmt.Errorf("pod %s/%s has a volume, %s; remove the pod first; if it does not exist, `umount` the volume on the node and remove %s/volumes",
			volume.Namespace, volume.Pod, volume.Target, n.RunDir)
	}
	return nil
}

// awaitDetached waits until nothing is attached and no address is allocated, and returns host-local's folders.
func (n *Node) awaitDetached(ctx context.Context, kernel *overlay.Node) (folders []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.Wait)
	defer cancel()
	for waited := false; ; {
		if err = n.detach(kernel, waited && n.NoPods); err == nil {
			if folders, err = n.ipamFolders(waited && n.NoPods); err == nil {
				return folders, nil
			}
		}
		if waited {
			return nil, err
		}
		select {
		case <-ctx.Done():
			waited = true
		case <-time.After(pollInterval):
		}
	}
}

// detach detaches containers that have ended, or all. It fails if others are attached.
func (n *Node) detach(kernel *overlay.Node, all bool) error {
	attached, err := attachment.List(n.StateDir, kernel)
	if err != nil {
		return err
	}
	for i := range attached {
		entry := &attached[i]
		if !entry.Gone && !entry.Ended {
			// Without a UID it is not known whether the pod exists.
			if exists := slices.Contains(n.Pods, entry.Identity) || entry.Identity == entry.ContainerID; exists || !all {
				return fmt.Errorf("interface %s of container %s is attached to network %s; remove its pod first", entry.Interface, entry.ContainerID, entry.Network)
			}
			fmt.Fprintf(n.Out, "detaching interface %s of container %s, which no pod has\n", entry.Interface, entry.ContainerID)
		}
		if err := n.detachOne(entry); err != nil {
			return fmt.Errorf("detach ended container %s: %w", entry.ContainerID, err)
		}
	}
	return nil
}

func (n *Node) detachOne(entry *attachment.Attached) error {
	if entry.OfLinks() {
		options := &attachment.LinkOptions{StateDir: n.StateDir, ControlSocket: control.DefaultPath, Patience: lockTimeout}
		return attachment.DetachLinks(context.Background(), options, entry)
	}
	config, err := os.ReadFile(filepath.Join(n.ConfDir, entry.Network+confSuffix))
	if err != nil {
		return err
	}
	return cni.Detach(&entry.Attachment, config, n.PluginDir)
}

// confSuffix is the suffix of network configurations.
const confSuffix = ".conf"

// ipamFolders returns host-local's folders of the installed networks. It fails if an address is allocated, unless all may go.
func (n *Node) ipamFolders(all bool) ([]string, error) {
	installed, err := n.Installed.Installed()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, path := range installed {
		name, ok := strings.CutSuffix(filepath.Base(path), confSuffix)
		if !ok || filepath.Dir(path) != n.ConfDir {
			continue
		}
		folder := filepath.Join(n.IPAMDir, name)
		if err := checkFree(folder); err != nil && !all {
			return nil, err
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// checkFree fails if host-local has allocated an address of a network.
func checkFree(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read allocated addresses: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != "lock" && !strings.HasPrefix(entry.Name(), "last_reserved_ip.") {
			return fmt.Errorf("address %s in %s is allocated; remove its pod first, or the file if there is no pod", entry.Name(), folder)
		}
	}
	return nil
}

// removeInstalled removes the files that the agent installed.
func (n *Node) removeInstalled() error {
	installed, err := n.Installed.Installed()
	if err != nil {
		return err
	}
	for _, path := range installed {
		if err := n.Installed.Remove(path); err != nil {
			return err
		}
		fmt.Fprintf(n.Out, "removed %s\n", path)
	}
	return nil
}

// RemoveIPAM removes host-local's folder of a network. It fails if an address is allocated.
func RemoveIPAM(dir string) error {
	if err := checkFree(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove allocated addresses: %w", err)
	}
	return nil
}
