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

func TestLinksThatAreToBeUnpluggedMeanwhileGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []string
		first := make(chan struct{})
		u := unplugger{unplug: func(_ context.Context, all []*attachment.Plugged) []error {
			var names []string
			failed := make([]error, len(all))
			for i, plugged := range all {
				names = append(names, plugged.Interface)
				if plugged.Interface == "bad" {
					failed[i] = errors.New("it stays")
				}
			}
			slices.Sort(names)
			if took = append(took, strings.Join(names, " ")); len(took) == 1 {
				<-first
			}
			return failed
		}}
		var mu sync.Mutex
		said := map[string]error{}
		unplug := func(name string) {
			go func() {
				err := u.do(t.Context(), &attachment.Plugged{Interface: name})
				mu.Lock()
				defer mu.Unlock()
				said[name] = err
			}()
		}
		unplug("a")
		synctest.Wait()
		for _, name := range []string{"b", "bad", "c"} {
			unplug(name)
		}
		synctest.Wait()
		close(first)
		synctest.Wait()
		unplug("d")
		synctest.Wait()
		if want := []string{"a", "b bad c", "d"}; !slices.Equal(took, want) {
			t.Errorf("together went %q, not %q", took, want)
		}
		if len(said) != 5 || said["bad"] == nil || said["a"] != nil || said["b"] != nil || said["c"] != nil || said["d"] != nil {
			t.Errorf("who asked was told %v", said)
		}
	})
}
