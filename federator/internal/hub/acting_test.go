// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

func TestActsOnlyAsOrdinaryUsers(t *testing.T) {
	h, err := Open(&rest.Config{Host: "https://hub.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	account := []string{"system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"}
	for name, test := range map[string]struct {
		user   string
		groups []string
		status int
		sent   []string
	}{
		"a ServiceAccount":   {"system:serviceaccount:team:anna", account, 0, nil},
		"a user with groups": {"anna@example.org", []string{"planners", "system:authenticated"}, 0, []string{"planners"}},
		"a bootstrap token": {"system:bootstrap:abcdef", []string{"system:bootstrappers", "system:bootstrappers:kubernetsn:east", "system:authenticated"}, 0,
			[]string{"system:bootstrappers", "system:bootstrappers:kubernetsn:east"}},
		"nobody":                     {"", nil, http.StatusUnauthorized, nil},
		"nobody with a group":        {"", []string{"planners"}, http.StatusUnauthorized, nil},
		"an administrator":           {"anna", []string{"system:masters"}, http.StatusForbidden, nil},
		"an account in masters":      {"system:serviceaccount:team:anna", append(slices.Clone(account), "system:masters"), http.StatusForbidden, nil},
		"a node":                     {"system:node:n1", []string{"system:nodes"}, http.StatusForbidden, nil},
		"a program of Kubernetes":    {"system:kube-controller-manager", nil, http.StatusForbidden, nil},
		"a user in accounts' groups": {"anna", account, http.StatusForbidden, nil},
	} {
		t.Run(name, func(t *testing.T) {
			user := authenticationv1.UserInfo{Username: test.user, Groups: test.groups, UID: "1"}
			config, err := h.Impersonated(user)
			_, errAs := h.As(user)
			if test.status != 0 {
				for _, err := range []error{err, errAs} {
					var fault *Fault
					if !errors.As(err, &fault) || fault.Status != test.status {
						t.Errorf("%v, want status %d", err, test.status)
					}
				}
				return
			}
			if err != nil || errAs != nil {
				t.Fatal(err, errAs)
			}
			if got := config.Impersonate; got.UserName != test.user || got.UID != "1" || !slices.Equal(got.Groups, test.sent) {
				t.Errorf("acts as %+v", got)
			}
		})
	}
}
