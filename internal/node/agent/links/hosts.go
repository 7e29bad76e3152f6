// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// Hosts has pods know the other ends of their links by name. kubelet mounts a file of its own as a pod's /etc/hosts; the names stand in
// a block of it that is marked. kubelet writes the file anew whenever a container of the pod starts, so the block is looked for again.
type Hosts struct {
	// Dir is kubelet's folder of pods.
	Dir string

	mu   sync.Mutex
	pods map[string]*hostsOfPod // by UID
}

// hostsOfPod is the block of one pod.
type hostsOfPod struct {
	// lines are those of each interface.
	lines map[string]string
	// modified is that of the file when it was seen to have the block; zero until it has settled.
	modified time.Time
	// reported are the problems that Look has returned.
	reported map[string]bool
}

const (
	hostsBegin = "# Links of KuberneTSN: begin"
	hostsEnd   = "# Links of KuberneTSN: end"
	// mostHostsBytes bounds the block; a pod with a thousand links has some 100 bytes for each.
	mostHostsBytes = 256 << 10
	// mostFileBytes bounds what is read of kubelet's file.
	mostFileBytes = 4 << 20
)

// hostName is a name as /etc/hosts can have one; what stands in a file that programs trust is not anybody's text.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?$`)

// Host is one behind the other end of a link.
type Host struct {
	Addresses []netip.Addr
	Names     []string
}

// Set has a pod know addresses by names, and further hosts, on account of one of its interfaces. Without names nothing is known on its
// account.
func (h *Hosts) Set(uid, interfaceName string, addresses []netip.Addr, names []string, further ...Host) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var known strings.Builder
	for _, host := range append([]Host{{addresses, names}}, further...) {
		lines, err := hostsLines(host.Addresses, host.Names)
		if err != nil {
			return err
		}
		known.WriteString(lines)
	}
	line := known.String()
	pod := h.pods[uid]
	switch {
	case pod == nil && line == "":
		return nil
	case pod == nil:
		pod = &hostsOfPod{lines: map[string]string{}}
		if h.pods == nil {
			h.pods = map[string]*hostsOfPod{}
		}
		h.pods[uid] = pod
	}
	if pod.lines[interfaceName] == line {
		return nil
	}
	if line == "" {
		delete(pod.lines, interfaceName)
	} else {
		pod.lines[interfaceName] = line
	}
	pod.modified = time.Time{}
	err := h.write(uid, pod)
	if len(pod.lines) == 0 {
		delete(h.pods, uid)
	}
	return err
}

// hostsLines are the lines of one interface.
func hostsLines(addresses []netip.Addr, names []string) (string, error) {
	for _, name := range names {
		if !hostName.MatchString(name) {
			return "", fmt.Errorf("names: %q is no name of a host", name)
		}
	}
	var all strings.Builder
	for _, address := range addresses {
		if len(names) > 0 {
			fmt.Fprintf(&all, "%s\t%s\n", address, strings.Join(names, "\t"))
		}
	}
	return all.String(), nil
}

// Look puts back what kubelet has overwritten. Where nothing has changed, it costs one call of the kernel for each pod. It returns each
// problem of a pod once: a pod can cause them, and is looked at every second.
func (h *Hosts) Look() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all error
	for uid, pod := range h.pods {
		err := h.write(uid, pod)
		if err == nil || pod.reported[err.Error()] {
			continue
		}
		if pod.reported == nil {
			pod.reported = map[string]bool{}
		}
		pod.reported[err.Error()] = true
		all = errors.Join(all, err)
	}
	return all
}

// Clean removes the block from the files of all pods but those that have names: what a former agent has left.
func (h *Hosts) Clean() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	paths, err := filepath.Glob(filepath.Join(h.Dir, "*", "etc-hosts"))
	if err != nil {
		return err
	}
	var all error
	for _, path := range paths {
		uid := filepath.Base(filepath.Dir(path))
		if h.pods[uid] == nil {
			all = errors.Join(all, h.write(uid, &hostsOfPod{}))
		}
	}
	return all
}

// write makes a pod's file have its block. A pod of which no container was started has no file yet. The lock is held.
func (h *Hosts) write(uid string, pod *hostsOfPod) error {
	path := filepath.Join(h.Dir, uid, "etc-hosts")
	readAt := time.Now()
	about, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("have the pod know names: %w", err)
	}
	if about.ModTime().Equal(pod.modified) {
		return nil
	}
	if !about.Mode().IsRegular() || about.Size() > mostFileBytes {
		return fmt.Errorf("have the pod know names: %s is no file as kubelet makes them", path)
	}
	if err := rewrite(path, pod.lines); err != nil {
		return fmt.Errorf("have the pod know names: %w", err)
	}
	pod.modified = time.Time{}
	if attachment.Settled(about.ModTime(), readAt) {
		// If rewrite changed the file, it has a later time, and the next look reads it once more.
		pod.modified = about.ModTime()
	}
	return nil
}

// rewrite changes the file in its place, because its inode is what the pod has mounted. Readers may see, for a moment, the end of what it
// was behind what it is; the block is at the end.
func rewrite(path string, lines map[string]string) error {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := io.ReadAll(io.LimitReader(file, mostFileBytes))
	if err != nil {
		return err
	}
	after := withBlock(before, lines)
	if bytes.Equal(before, after) {
		return nil
	}
	if _, err := file.WriteAt(after, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(after)))
}

// withBlock is the file's content with the block, instead of that which it had.
func withBlock(before []byte, lines map[string]string) []byte {
	after := withoutBlock(before)
	if len(lines) == 0 {
		return after
	}
	var block strings.Builder
	// Two links to one service have one name: the first interface's is found first.
	for _, interfaceName := range slices.Sorted(maps.Keys(lines)) {
		line := lines[interfaceName]
		if block.Len()+len(line) > mostHostsBytes {
			break
		}
		block.WriteString(line)
	}
	if len(after) > 0 && after[len(after)-1] != '\n' {
		after = append(after, '\n')
	}
	return append(after, hostsBegin+"\n"+block.String()+hostsEnd+"\n"...)
}

// withoutBlock leaves out the block, also one whose end is missing.
func withoutBlock(before []byte) []byte {
	begin := bytes.Index(before, []byte(hostsBegin+"\n"))
	if begin < 0 {
		return bytes.Clone(before)
	}
	rest := before[begin:]
	after := bytes.Clone(before[:begin])
	if end := bytes.Index(rest, []byte(hostsEnd+"\n")); end >= 0 {
		after = append(after, rest[end+len(hostsEnd)+1:]...)
	}
	return after
}
