// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// settleAfter is well above the granularity of modification times: a few milliseconds in kernels before 6.13.
const settleAfter = 100 * time.Millisecond

// Settled reports whether each change after readAt gives the file or folder another modification time than this one. Right after a change
// it does not: a second change in the same tick of the kernel's clock leaves the time as it is, so the content must be read once more.
func Settled(modified, readAt time.Time) bool { return readAt.Sub(modified) > settleAfter }

// SandboxList knows the sandboxes for links, and reads each record once. All functions may be called by any goroutine.
type SandboxList struct {
	StateDir string

	mu       sync.Mutex
	modified time.Time          // of the folder when it was read; zero until it has settled
	known    map[string]Sandbox // by the names of the records
}

// Look reads what has come since the last look, and returns the identities whose sandboxes have come or gone. Where nothing has, it costs
// one call of the kernel.
func (l *SandboxList) Look() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := recordStore{l.StateDir}
	readAt := time.Now()
	folder, err := os.Stat(of.folder(SandboxNetwork))
	if os.IsNotExist(err) {
		return l.replace(time.Time{}, nil), nil
	}
	if err != nil || folder.ModTime().Equal(l.modified) {
		return nil, err
	}
	entries, err := os.ReadDir(of.folder(SandboxNetwork))
	if err != nil {
		return nil, err
	}
	now := map[string]Sandbox{}
	for _, entry := range entries {
		name := entry.Name()
		if known, ok := l.known[name]; ok {
			now[name] = known
			continue
		}
		containerID, interfaceName, ok := strings.Cut(name, separator)
		if !ok || strings.HasSuffix(name, overlay.Unfinished) {
			continue
		}
		attachment := overlay.Attachment{Network: SandboxNetwork, ContainerID: containerID, Interface: interfaceName}
		if r := of.read(&attachment); r != nil {
			now[name] = Sandbox{r.ContainerID, r.Identity, filepath.Clean(r.Netns), of.since(&attachment)}
		}
	}
	if !Settled(folder.ModTime(), readAt) {
		return l.replace(time.Time{}, now), nil
	}
	return l.replace(folder.ModTime(), now), nil
}

// replace returns the identities of what is new and what has gone. The lock is held.
func (l *SandboxList) replace(modified time.Time, now map[string]Sandbox) []string {
	changed := map[string]bool{}
	for name, one := range l.known {
		if _, stays := now[name]; !stays {
			changed[one.Identity] = true
		}
	}
	for name, one := range now {
		if _, known := l.known[name]; !known {
			changed[one.Identity] = true
		}
	}
	l.known, l.modified = now, modified
	return slices.Collect(maps.Keys(changed))
}

// Of is the youngest sandbox of an identity whose network namespace is there.
func (l *SandboxList) Of(identity string) (found Sandbox, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.known {
		if one.Identity == identity && !isGone(one.Netns) && (!ok || one.Since.After(found.Since)) {
			found, ok = one, true
		}
	}
	return found, ok
}
