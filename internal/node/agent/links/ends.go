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

// ends is what is remembered of interfaces of pods, by UID and name. It is lost with the agent; what was plugged is found again.
type ends struct {
	mu    sync.Mutex
	known map[string]*end
	// swept counts the looks for what is left.
	swept int
	// look has a link looked at again. It must not block.
	look func(types.NamespacedName)
}

// end is one interface.
type end struct {
	// claims are the links that want it, and when each was made.
	claims map[types.NamespacedName]time.Time
	// owner is the link that has it, as plan says; since is when it got it, mended when it was plugged last.
	owner         types.NamespacedName
	plan          *attachment.LinkPlan
	since, mended time.Time
	broken        bool
	// said is what was written last, and when.
	said   *report
	saidAt time.Time
}

// get returns the end, which is made where it is not known. The lock is held.
func (e *ends) get(key string) *end {
	if e.known == nil {
		e.known = map[string]*end{}
	}
	if e.known[key] == nil {
		e.known[key] = &end{claims: map[types.NamespacedName]time.Time{}}
	}
	return e.known[key]
}

// claim notes that a link wants the interface, and returns the name of a younger one that does, "" if there is none: a client that gets
// another endpoint has two links for a moment.
func (e *ends) claim(key string, link *v1alpha1.TSNLink) (younger string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ownName, made := client.ObjectKeyFromObject(link), link.CreationTimestamp.Time
	one := e.get(key)
	one.claims[ownName] = made
	for name, at := range one.claims {
		if at.After(made) || at.Equal(made) && strings.Compare(name.String(), ownName.String()) > 0 {
			return name.String()
		}
	}
	return ""
}

// release forgets what a link claims, and returns the interfaces.
func (e *ends) release(name types.NamespacedName) (keys []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, one := range e.known {
		if _, claimed := one.claims[name]; claimed {
			delete(one.claims, name)
			keys = append(keys, key)
			if len(one.claims) == 0 && one.plan == nil {
				delete(e.known, key)
			}
		}
	}
	return keys
}

// again has the other links looked at that claim an interface.
func (e *ends) again(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.known[key]; one != nil && e.look != nil {
		for name := range one.claims {
			e.look(name)
		}
	}
}

func (e *ends) plugged(key string) *attachment.LinkPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.known[key]; one != nil {
		return one.plan
	}
	return nil
}

func (e *ends) ownerOf(key string) (types.NamespacedName, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.known[key]
	if one == nil || one.plan == nil {
		return types.NamespacedName{}, false
	}
	return one.owner, true
}

func (e *ends) plug(key string, owner types.NamespacedName, plan *attachment.LinkPlan, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.get(key)
	if one.plan == nil || one.owner != owner {
		one.since = now
	}
	one.owner, one.plan, one.mended, one.broken = owner, plan, now, false
}

// of are the interfaces that a link has.
func (e *ends) of(name types.NamespacedName) map[string]*attachment.LinkPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]*attachment.LinkPlan{}
	for key, one := range e.known {
		if one.plan != nil && one.owner == name {
			all[key] = one.plan
		}
	}
	return all
}

func (e *ends) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.known[key]; one != nil {
		one.plan, one.said, one.broken = nil, nil, false
	}
}

// settling is for how long to wait for the first answer.
func (e *ends) settling(key string, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.get(key).since.Add(settle).Sub(now)
}

func (e *ends) breaks(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.known[key]; one != nil && one.plan != nil {
		one.broken = true
		if e.look != nil {
			e.look(one.owner)
		}
	}
}

func (e *ends) broken(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[key] != nil && e.known[key].broken
}

// due tells whether a link that does not answer is to be plugged again.
func (e *ends) due(key string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Sub(e.get(key).mended) >= mendEvery
}

// sweeps counts a look for what is left, and returns how many there were.
func (e *ends) sweeps() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.swept++
	return e.swept
}
