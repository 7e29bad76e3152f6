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

// Node is what is removed from a node.
type Node struct {
	// StateDir is tsn-cni's, RunDir ktsnd's, IPAMDir where host-local remembers addresses.
	StateDir, RunDir, IPAMDir string
	// PluginDir has the IPAM plugin, ConfDir the networks' configurations.
	PluginDir, ConfDir string
	Installed          *install.Node
	// Further are folders and sockets that are the project's alone.
	Further []string
	// Wait is for how long runtimes may still be at work on pods that have ended. They need nobody else for that.
	Wait time.Duration
	// TakeDown takes down whoever else makes tunnels; nil where there is nobody.
	TakeDown func(context.Context) error
	// Out is told what was removed.
	Out io.Writer
}

// patience is how long to wait for network plugins at work.
const patience = 10 * time.Second

// Clean removes what was installed. It refuses as long as something is attached or published, and before it removes
// anything. What tells what there is to remove goes last, so that an attempt that failed half-way can be repeated.
func (n *Node) Clean(ctx context.Context) error {
	kernel, err := overlay.Open(n.StateDir, patience)
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
	// Before its peers go: this container may take the program off, but not everywhere write its maps.
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
	if err := forgetKeys(); err != nil {
		return err
	}
	// Without bridges, tunnels and peers there is no filter, whoever left one.
	if _, err := kernel.Guard(ctx); err != nil {
		return err
	}
	if n.TakeDown != nil {
		if err := n.TakeDown(ctx); err != nil {
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
	// With the list of what was installed.
	return n.removeAll(n.StateDir)
}

// forgetKeys has the kernel forget keys and policies of encrypted networks. They are found whatever their port was.
func forgetKeys() error {
	kernel, err := xfrm.Open(overlay.EncryptedPort)
	if err == nil {
		err = kernel.Clear()
		kernel.Close()
	}
	if errors.Is(err, xfrm.ErrUnavailable) {
		return nil // a kernel that cannot encrypt has none
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

// refuseVolumes refuses when a pod has a volume, by the agent's records: its socket and library are in RunDir.
func (n *Node) refuseVolumes() error {
	volumes, err := (&csi.Volumes{Dir: n.RunDir}).All()
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		return fmt.Errorf("pod %s/%s has a volume, %s; remove the pod first; if there is none, `umount` that on the node and remove %s/volumes",
			volume.Namespace, volume.Pod, volume.Target, n.RunDir)
	}
	return nil
}

// awaitDetached waits until nothing is attached and no address is given away, and returns host-local's folders.
func (n *Node) awaitDetached(ctx context.Context, kernel *overlay.Node) (folders []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.Wait)
	defer cancel()
	for {
		if err = n.detachGone(kernel); err == nil {
			if folders, err = n.ipamFolders(); err == nil {
				return folders, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(askEvery):
		}
	}
}

// detachGone detaches what is left of containers that are gone, and refuses when there are others.
func (n *Node) detachGone(kernel *overlay.Node) error {
	attached, err := attachment.List(n.StateDir, kernel)
	if err != nil {
		return err
	}
	for _, one := range attached {
		if !one.Gone {
			return fmt.Errorf("interface %s of container %s is attached to network %s; remove its pod first", one.Interface, one.ContainerID, one.Network)
		}
		if one.OfLinks() {
			options := &attachment.LinkOptions{StateDir: n.StateDir, ControlSocket: control.DefaultPath, Patience: linkPatience}
			if err := attachment.DetachLinks(context.Background(), options, &one); err != nil {
				return fmt.Errorf("detach container %s, which is gone: %w", one.ContainerID, err)
			}
			continue
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

// linkPatience is how long to wait for others that change the node's networks.
const linkPatience = 10 * time.Second

// confSuffix ends the names of configurations.
const confSuffix = ".conf"

// ipamFolders are host-local's folders of the networks that were installed. It refuses when an address of one is given away.
func (n *Node) ipamFolders() ([]string, error) {
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
		if err := isFree(folder); err != nil {
			return nil, err
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// isFree refuses when host-local's folder of a network has an address that is given away.
func isFree(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at given addresses: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != "lock" && !strings.HasPrefix(entry.Name(), "last_reserved_ip.") {
			return fmt.Errorf("address %s in %s is given away; remove its pod first, or the file when there is none", entry.Name(), folder)
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

// RemoveIPAM removes host-local's folder of a network, unless an address of it is given away.
func RemoveIPAM(dir string) error {
	if err := isFree(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("forget given addresses: %w", err)
	}
	return nil
}
