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

// Hosts lets pods resolve the other ends of their links by name. kubelet mounts its own file as a pod's /etc/hosts; the
// names are in a marked block of it. kubelet rewrites the file whenever a container of the pod starts, so the block is
// checked periodically.
type Hosts struct {
	// Dir is kubelet's folder of pods.
	Dir string

	mu   sync.Mutex
	pods map[string]*podHosts // by UID
}

// podHosts is the state of one pod's file.
type podHosts struct {
	// lines are the lines of each interface.
	lines map[string]string
	// modified is the file's modification time when it had the block; zero until the time has settled.
	modified time.Time
	// reported are the problems that Refresh has returned.
	reported map[string]bool
}

const (
	hostsBegin = "# Links of KuberneTSN: begin"
	hostsEnd   = "# Links of KuberneTSN: end"
	// maxBlockBytes limits the block; a pod with a thousand links has about 100 bytes for each.
	maxBlockBytes = 256 << 10
	// maxFileBytes limits how much of kubelet's file is read.
	maxFileBytes = 4 << 20
)

// hostName is a valid name for /etc/hosts. Programs trust the file, so nothing else is written into it.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?$`)

// Host is a host that is reachable through the other end of a link.
type Host struct {
	Addresses []netip.Addr
	Names     []string
}

// Set sets the names of addresses and further hosts for one interface of a pod. Without names it removes the lines of
// the interface.
func (h *Hosts) Set(uid, interfaceName string, addresses []netip.Addr, names []string, further ...Host) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var text strings.Builder
	for _, host := range append([]Host{{addresses, names}}, further...) {
		lines, err := hostsLines(host.Addresses, host.Names)
		if err != nil {
			return err
		}
		text.WriteString(lines)
	}
	line := text.String()
	pod := h.pods[uid]
	switch {
	case pod == nil && line == "":
		return nil
	case pod == nil:
		pod = &podHosts{lines: map[string]string{}}
		if h.pods == nil {
			h.pods = map[string]*podHosts{}
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

// hostsLines returns the lines of addresses with their names.
func hostsLines(addresses []netip.Addr, names []string) (string, error) {
	for _, name := range names {
		if !hostName.MatchString(name) {
			return "", fmt.Errorf("names: %q is not a valid host name", name)
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

// Refresh restores blocks that kubelet has overwritten. An unchanged file costs one system call. It returns each
// problem of a pod once: a pod can cause problems, and is checked every second.
func (h *Hosts) Refresh() error {
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

// Clean removes the blocks of a previous agent from the files of pods without names.
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
			all = errors.Join(all, h.write(uid, &podHosts{}))
		}
	}
	return all
}

// write updates the block in a pod's file. Before the first container of a pod starts there is no file. The lock is
// held.
func (h *Hosts) write(uid string, pod *podHosts) error {
	path := filepath.Join(h.Dir, uid, "etc-hosts")
	readAt := time.Now()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update the pod's /etc/hosts: %w", err)
	}
	if info.ModTime().Equal(pod.modified) {
		return nil
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return fmt.Errorf("update the pod's /etc/hosts: %s is not a file of kubelet", path)
	}
	if err := rewrite(path, pod.lines); err != nil {
		return fmt.Errorf("update the pod's /etc/hosts: %w", err)
	}
	pod.modified = time.Time{}
	if attachment.Settled(info.ModTime(), readAt) {
		// If rewrite changed the file, it has a later time, and the next call reads it again.
		pod.modified = info.ModTime()
	}
	return nil
}

// rewrite changes the file in place, because the pod has mounted its inode. Readers may briefly see remains of the old
// content after the new content; the block is at the end.
func rewrite(path string, lines map[string]string) error {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
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

// withBlock returns the file's content with the new block.
func withBlock(before []byte, lines map[string]string) []byte {
	after := withoutBlock(before)
	if len(lines) == 0 {
		return after
	}
	var block strings.Builder
	// Two links to one service have the same name: sort, so that the first interface's address comes first.
	for _, interfaceName := range slices.Sorted(maps.Keys(lines)) {
		line := lines[interfaceName]
		if block.Len()+len(line) > maxBlockBytes {
			break
		}
		block.WriteString(line)
	}
	if len(after) > 0 && after[len(after)-1] != '\n' {
		after = append(after, '\n')
	}
	return append(after, hostsBegin+"\n"+block.String()+hostsEnd+"\n"...)
}

// withoutBlock returns the content without the block. If the end marker is missing, the block reaches to the end.
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
