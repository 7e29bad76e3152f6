// SPDX-License-Identifier: Apache-2.0

package links

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// ends is the state of pods' interfaces, by UID and name. It is lost with the agent; plugged interfaces are found
// again.
type ends struct {
	mu    sync.Mutex
	byKey map[string]*end
	// sweepCount counts the sweeps.
	sweepCount int
	// enqueue triggers the reconciliation of a link. It must not block.
	enqueue func(types.NamespacedName)
}

// end is the state of one interface.
type end struct {
	// claims are the links that claim the interface, with their creation times.
	claims map[types.NamespacedName]time.Time
	// owner is the link that has the interface as plan describes. since is when the owner got it, pluggedAt the last
	// time that it was plugged.
	owner            types.NamespacedName
	plan             *attachment.LinkPlan
	since, pluggedAt time.Time
	broken           bool
	// written is the last report, writtenAt its time.
	written   *report
	writtenAt time.Time
}

// get returns the state of an interface and creates it if necessary. The lock is held.
func (e *ends) get(key string) *end {
	if e.byKey == nil {
		e.byKey = map[string]*end{}
	}
	if e.byKey[key] == nil {
		e.byKey[key] = &end{claims: map[types.NamespacedName]time.Time{}}
	}
	return e.byKey[key]
}

// claim records that a link claims the interface. It returns the name of a younger link that does so too, "" if there
// is none: a client that gets another endpoint has two links for a moment.
func (e *ends) claim(key string, link *v1alpha1.TSNLink) (younger string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ownName, created := client.ObjectKeyFromObject(link), link.CreationTimestamp.Time
	entry := e.get(key)
	entry.claims[ownName] = created
	for name, at := range entry.claims {
		if at.After(created) || at.Equal(created) && strings.Compare(name.String(), ownName.String()) > 0 {
			return name.String()
		}
	}
	return ""
}

// release drops the claims of a link, and returns their interfaces.
func (e *ends) release(name types.NamespacedName) (keys []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, entry := range e.byKey {
		if _, claimed := entry.claims[name]; claimed {
			delete(entry.claims, name)
			keys = append(keys, key)
			if len(entry.claims) == 0 && entry.plan == nil {
				delete(e.byKey, key)
			}
		}
	}
	return keys
}

// enqueueClaims triggers the links that claim an interface.
func (e *ends) enqueueClaims(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.byKey[key]; entry != nil && e.enqueue != nil {
		for name := range entry.claims {
			e.enqueue(name)
		}
	}
}

func (e *ends) plugged(key string) *attachment.LinkPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.byKey[key]; entry != nil {
		return entry.plan
	}
	return nil
}

func (e *ends) ownerOf(key string) (types.NamespacedName, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.byKey[key]
	if entry == nil || entry.plan == nil {
		return types.NamespacedName{}, false
	}
	return entry.owner, true
}

func (e *ends) plug(key string, owner types.NamespacedName, plan *attachment.LinkPlan, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.get(key)
	if entry.plan == nil || entry.owner != owner {
		entry.since = now
	}
	entry.owner, entry.plan, entry.pluggedAt, entry.broken = owner, plan, now, false
}

// ownedBy returns the interfaces of a link.
func (e *ends) ownedBy(name types.NamespacedName) map[string]*attachment.LinkPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]*attachment.LinkPlan{}
	for key, entry := range e.byKey {
		if entry.plan != nil && entry.owner == name {
			all[key] = entry.plan
		}
	}
	return all
}

func (e *ends) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.byKey[key]; entry != nil {
		entry.plan, entry.written, entry.broken = nil, nil, false
	}
}

// settleTime returns how long to wait for the first answer.
func (e *ends) settleTime(key string, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.get(key).since.Add(settleTimeout).Sub(now)
}

func (e *ends) setBroken(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.byKey[key]; entry != nil && entry.plan != nil {
		entry.broken = true
		if e.enqueue != nil {
			e.enqueue(entry.owner)
		}
	}
}

func (e *ends) broken(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byKey[key] != nil && e.byKey[key].broken
}

// repairDue reports whether a link that does not answer should be plugged again.
func (e *ends) repairDue(key string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Sub(e.get(key).pluggedAt) >= repairInterval
}

// countSweep counts a sweep and returns the number of sweeps.
func (e *ends) countSweep() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweepCount++
	return e.sweepCount
}
