// SPDX-License-Identifier: Apache-2.0

package ipamclaim

import (
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsMissing(t *testing.T) {
	resource := schema.GroupResource{Group: Version.Group, Resource: "ipamclaims"}
	unknownPath := func(verb, name string) error {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, verb, resource, name, "404 page not found", 0, true)
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                    {nil, false},
		"an unknown kind":             {&meta.NoKindMatchError{GroupKind: Kind.GroupKind()}, true},
		"a list of a removed kind":    {unknownPath(http.MethodGet, ""), true},
		"an object of a removed kind": {unknownPath(http.MethodGet, "plc"), true},
		"a wrapped error":             {fmt.Errorf("get: %w", unknownPath(http.MethodGet, "plc")), true},
		"a missing claim":             {apierrors.NewNotFound(resource, "plc"), false},
		"a conflict":                  {apierrors.NewConflict(resource, "plc", nil), false},
	} {
		if got := IsMissing(test.err); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
