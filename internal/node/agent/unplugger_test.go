// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

func TestUnpluggerBatchesConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []string
		firstBatch := make(chan struct{})
		u := unplugger{unplug: func(_ context.Context, all []*attachment.Plugged) []error {
			var names []string
			errs := make([]error, len(all))
			for i, plugged := range all {
				names = append(names, plugged.Interface)
				if plugged.Interface == "bad" {
					errs[i] = errors.New("busy")
				}
			}
			slices.Sort(names)
			if batches = append(batches, strings.Join(names, " ")); len(batches) == 1 {
				<-firstBatch
			}
			return errs
		}}
		var mu sync.Mutex
		results := map[string]error{}
		unplug := func(name string) {
			go func() {
				err := u.do(t.Context(), &attachment.Plugged{Interface: name})
				mu.Lock()
				defer mu.Unlock()
				results[name] = err
			}()
		}
		unplug("a")
		synctest.Wait()
		for _, name := range []string{"b", "bad", "c"} {
			unplug(name)
		}
		synctest.Wait()
		close(firstBatch)
		synctest.Wait()
		unplug("d")
		synctest.Wait()
		if want := []string{"a", "b bad c", "d"}; !slices.Equal(batches, want) {
			t.Errorf("batches %q, want %q", batches, want)
		}
		if len(results) != 5 || results["bad"] == nil || results["a"] != nil || results["b"] != nil || results["c"] != nil || results["d"] != nil {
			t.Errorf("results %v", results)
		}
	})
}
