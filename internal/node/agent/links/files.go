// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/node/linkwait"
)

// Files describe links to applications of pods: the folder links in a pod's folder, which is /run/ktsn/links in the
// pod.
type Files struct {
	// PodDir returns the folder of a pod.
	PodDir func(uid string) string
}

// WriteLink describes a link that has been up.
func (f *Files) WriteLink(uid string, link *linkwait.Link) error {
	text, err := json.Marshal(link)
	if err != nil {
		return fmt.Errorf("write the pod's link file: %w", err)
	}
	if err := f.writeFile(uid, link.Interface, append(text, '\n')); err != nil {
		return err
	}
	return f.removeFile(uid, link.Interface+linkwait.Waiting)
}

// WriteWaiting writes why a link has not been up yet.
func (f *Files) WriteWaiting(uid, interfaceName, message string) error {
	return f.writeFile(uid, interfaceName+linkwait.Waiting, []byte(message+"\n"))
}

// Remove removes the files of a link.
func (f *Files) Remove(uid, interfaceName string) error {
	return errors.Join(f.removeFile(uid, interfaceName), f.removeFile(uid, interfaceName+linkwait.Waiting))
}

func (f *Files) path(uid, name string) string {
	return filepath.Join(f.PodDir(uid), linkwait.Folder, name)
}

// writeFile atomically writes a file that all users of the pod can read. A pod without a folder has no volume: nobody
// waits for the file.
func (f *Files) writeFile(uid, name string, content []byte) error {
	path := f.path(uid, name)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
		return nil
	}
	if _, err := os.Stat(f.PodDir(uid)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := os.Mkdir(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Chmod(filepath.Dir(path), 0o755) // whatever the umask is
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("write the pod's link file: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(path), "."+name)
	err = os.WriteFile(temporary, content, 0o644)
	if err == nil {
		err = errors.Join(os.Chmod(temporary, 0o644), os.Rename(temporary, path))
	}
	if err != nil {
		return fmt.Errorf("write the pod's link file: %w", errors.Join(err, ignoreMissing(os.Remove(temporary))))
	}
	return nil
}

func (f *Files) removeFile(uid, name string) error {
	if err := ignoreMissing(os.Remove(f.path(uid, name))); err != nil {
		return fmt.Errorf("remove the pod's link file: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// linkFile returns the description of the link for the application of this end.
func (s *side) linkFile(mtu int) *linkwait.Link {
	link := &linkwait.Link{Interface: s.end.Interface, Service: s.link.Spec.Service, Addresses: s.end.Addresses, MTU: mtu}
	for _, text := range s.otherEnd.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			link.Peer.Addresses = append(link.Peer.Addresses, prefix.Addr())
		}
	}
	link.Peer.Cluster, link.Peer.Namespace, link.Peer.Pod = s.otherEnd.Cluster, s.otherEnd.Namespace, s.otherEnd.Pod
	return link
}
