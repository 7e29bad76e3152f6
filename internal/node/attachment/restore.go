// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// netnsDirs are where runtimes keep the network namespaces of pods.
var netnsDirs = []string{"/run/netns", "/run/docker/netns"}

// Restored says what Restore did.
type Restored struct {
	Endpoints, Sockets, Peers int
	// Rebuilt counts records that were lost and are there again.
	Rebuilt int
	// Gone counts interfaces whose network namespace is not there any more, as after a restart of the node. Their
	// records stay until the runtime deletes what it attached.
	Gone int
}

// Restore tells a ktsnd that was started anew of all that is attached to this node and of the peers. It first
// rebuilds records that were lost, from what the kernel knows. What cannot be restored is in the error; all else
// is.
func Restore(ctx context.Context, stateDir string, node *overlay.Node, client *control.Client, controlSocket string) (Restored, error) {
	var done Restored
	store := recordStore{stateDir}
	rebuilt, all := rebuild(ctx, node, store, client, controlSocket)
	done.Rebuilt = rebuilt
	_, err := node.Guard(ctx)
	all = errors.Join(all, err)
	made, err := store.withPorts()
	all = errors.Join(all, err)
	refused, err := restoreEncryption(ctx, node, client, made)
	all = errors.Join(all, err)
	if refused == nil {
		return done, all // never in clear what may be encrypted
	}
	count, err := restorePeers(ctx, node, client, refused)
	done.Peers, all = count, errors.Join(all, err)
	attached := len(made)
	made = slices.DeleteFunc(made, func(r *Record) bool { return isGone(r.Netns) })
	done.Gone = attached - len(made)
	made = slices.DeleteFunc(made, func(r *Record) bool { return refused[r.VNI] })
	daemon := &daemon{client}
	for _, r := range made {
		if err := daemon.addEndpoint(ctx, r); err != nil {
			all = errors.Join(all, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
			continue
		}
		done.Endpoints++
	}
	// Where the kernel cannot, pods do without, as after ADD; `ktsn node receive attach` says why.
	_, _ = RestoreReceive(ctx, stateDir, node)
	// Sockets come last: applications that find one expect endpoints and peers to be known.
	sockets, err := restoreSockets(ctx, daemon, made)
	done.Sockets = sockets
	return done, errors.Join(all, err)
}

// restorePeers tells ktsnd of the peers of all networks but these.
func restorePeers(ctx context.Context, node *overlay.Node, client *control.Client, but map[uint32]bool) (count int, all error) {
	peers, err := node.Peers()
	all = errors.Join(all, err)
	ofLinks, err := node.LinkPeers()
	all = errors.Join(all, err)
	for _, peer := range slices.Concat(peers, ofLinks) {
		if but[peer.VNI] {
			continue
		}
		if err := client.PeerAdd(ctx, peer); err != nil {
			all = errors.Join(all, fmt.Errorf("peer %s of network %d: %w", peer.Address, peer.VNI, err))
			continue
		}
		count++
	}
	return count, all
}

func restoreSockets(ctx context.Context, daemon *daemon, made []*Record) (int, error) {
	var all error
	paths := map[string]bool{}
	for _, r := range made {
		if r.Socket == "" || paths[r.Socket] {
			continue
		}
		if err := daemon.addSocket(ctx, r.Identity, r.Socket); err != nil {
			all = errors.Join(all, fmt.Errorf("socket of container %s: %w", r.ContainerID, err))
			continue
		}
		paths[r.Socket] = true
	}
	return len(paths), all
}

// netnsPath finds the file of the network namespace that has this number here.
func netnsPath(id int) string {
	for _, dir := range netnsDirs {
		entries, _ := os.ReadDir(dir) // one that is not there has nothing in it
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			file, err := os.Open(path)
			if err != nil {
				continue
			}
			found, err := netlink.GetNetNsIdByFd(int(file.Fd()))
			file.Close()
			if err == nil && found == id && id >= 0 {
				return path
			}
		}
	}
	return ""
}
