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

	"github.com/kubernetsn/kubernetsn/internal/shared/linkfile"
)

// Files tell applications of pods of their links: the folder links of a pod's folder, which they have as /run/ktsn/links.
type Files struct {
	// PodDir is the folder of a pod, by UID.
	PodDir func(uid string) string
}

// Up says that a link was up once.
func (f *Files) Up(uid string, about *linkfile.Link) error {
	text, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("tell the pod of its link: %w", err)
	}
	if err := f.put(uid, about.Interface, append(text, '\n')); err != nil {
		return err
	}
	return f.drop(uid, about.Interface+linkfile.Waiting)
}

// Wait says what is missing of a link that was not up yet.
func (f *Files) Wait(uid, interfaceName, sentence string) error {
	return f.put(uid, interfaceName+linkfile.Waiting, []byte(sentence+"\n"))
}

// Gone takes back what was said of a link.
func (f *Files) Gone(uid, interfaceName string) error {
	return errors.Join(f.drop(uid, interfaceName), f.drop(uid, interfaceName+linkfile.Waiting))
}

func (f *Files) path(uid, name string) string {
	return filepath.Join(f.PodDir(uid), linkfile.Folder, name)
}

// put writes a file that all users of the pod can read, at once. Where the pod has no folder it has no volume, and nobody waits.
func (f *Files) put(uid, name string, content []byte) error {
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
		return fmt.Errorf("tell the pod of its link: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(path), "."+name)
	err = os.WriteFile(temporary, content, 0o644)
	if err == nil {
		err = errors.Join(os.Chmod(temporary, 0o644), os.Rename(temporary, path))
	}
	if err != nil {
		return fmt.Errorf("tell the pod of its link: %w", errors.Join(err, ignoreMissing(os.Remove(temporary))))
	}
	return nil
}

func (f *Files) drop(uid, name string) error {
	if err := ignoreMissing(os.Remove(f.path(uid, name))); err != nil {
		return fmt.Errorf("take back what the pod was told of its link: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// about is what the application of one end is told.
func (s *side) about(mtu int) *linkfile.Link {
	link := &linkfile.Link{Interface: s.own.Interface, Service: s.link.Spec.Service, Addresses: s.own.Addresses, MTU: mtu}
	for _, text := range s.other.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			link.Peer.Addresses = append(link.Peer.Addresses, prefix.Addr())
		}
	}
	link.Peer.Cluster, link.Peer.Namespace, link.Peer.Pod = s.other.Cluster, s.other.Namespace, s.other.Pod
	return link
}
