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

// maxConcurrent limits the concurrent requests of one caller to the hub.
const maxConcurrent = 8

// runConcurrently calls functions that do not depend on each other and returns their errors in order. After the first
// error with stopOnError, or after an error because the hub does not answer, no further function is started.
func runConcurrently(stopOnError bool, functions ...func() error) []error {
	errs := make([]error, len(functions))
	var stopped atomic.Bool
	var group errgroup.Group
	group.SetLimit(maxConcurrent)
	for i, call := range functions {
		group.Go(func() error {
			if stopped.Load() {
				return nil
			}
			if errs[i] = call(); errs[i] != nil && (stopOnError || !isRefusal(errs[i])) {
				stopped.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has the errors in order
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// isRefusal reports whether the hub or the federator refused a request; then other requests may be wrong as well.
func isRefusal(err error) bool {
	var refused apierrors.APIStatus
	var fault *hub.Fault
	return errors.As(err, &refused) || errors.As(err, &fault)
}

// firstError calls functions concurrently and returns the first error.
func firstError(functions ...func() error) error {
	if wrong := runConcurrently(false, functions...); len(wrong) > 0 {
		return wrong[0]
	}
	return nil
}

// Busy are the workloads that are being deployed.
type Busy struct{ names sync.Map }

// begin reserves a name. It reports whether it was free; end releases it.
func (b *Busy) begin(name string) (end func(), free bool) {
	if _, busy := b.names.LoadOrStore(name, true); busy {
		return nil, false
	}
	return func() { b.names.Delete(name) }, true
}
