// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// atATime is how many requests of one caller the hub answers side by side.
const atATime = 8

// sideBySide does things that do not depend on each other, and returns what went wrong, in their order. When the hub does not answer, or when
// all hangs on each, no more are begun after the first that went wrong.
func sideBySide(all bool, things ...func() error) []error {
	wrong := make([]error, len(things))
	var stopped atomic.Bool
	var group errgroup.Group
	group.SetLimit(atATime)
	for i, do := range things {
		group.Go(func() error {
			if stopped.Load() {
				return nil
			}
			if wrong[i] = do(); wrong[i] != nil && (all || !isRefusal(wrong[i])) {
				stopped.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // what went wrong is kept in its order
	return slices.DeleteFunc(wrong, func(err error) bool { return err == nil })
}

// isRefusal tells whether the hub, or the federator, has answered that it does not take a thing: then others may be wrong as well.
func isRefusal(err error) bool {
	var refused apierrors.APIStatus
	var fault *hub.Fault
	return errors.As(err, &refused) || errors.As(err, &fault)
}

// firstOf does things side by side, and returns the first thing that went wrong.
func firstOf(things ...func() error) error {
	if wrong := sideBySide(false, things...); len(wrong) > 0 {
		return wrong[0]
	}
	return nil
}

// Busy are workloads that are being deployed.
type Busy struct{ names sync.Map }

// begin tells whether nobody else has begun, and then end ends it.
func (b *Busy) begin(name string) (end func(), free bool) {
	if _, busy := b.names.LoadOrStore(name, true); busy {
		return nil, false
	}
	return func() { b.names.Delete(name) }, true
}
