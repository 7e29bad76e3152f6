// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prefixes and names of Kubernetes' own users and groups.
const (
	reserved       = "system:"
	accountUser    = "system:serviceaccount:"
	bootstrapUser  = "system:bootstrap:"
	bootstrapGroup = "system:bootstrappers"
	allAccounts    = "system:serviceaccounts"
	authenticated  = "system:authenticated"
)

// Impersonated returns the configuration to reach the hub as a user. It fails for users that the federator does not act
// as: a request without a user name would be the federator's own, and users and groups of Kubernetes itself, such as
// system:masters, have rights that RBAC does not limit.
func (h *Hub) Impersonated(user authenticationv1.UserInfo) (*rest.Config, error) {
	if err := checkUser(&user); err != nil {
		return nil, err
	}
	config := h.Config()
	extra := make(map[string][]string, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = values
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: user.Username, UID: user.UID, Extra: extra}
	// The API server adds system:authenticated and the groups of a ServiceAccount itself, so that the federator needs
	// no right to impersonate those.
	if !strings.HasPrefix(user.Username, accountUser) {
		config.Impersonate.Groups = slices.DeleteFunc(slices.Clone(user.Groups), func(group string) bool { return group == authenticated })
	}
	return config, nil
}

// checkUser rejects users that the federator does not act as.
func checkUser(user *authenticationv1.UserInfo) error {
	if user.Username == "" {
		return Faultf(http.StatusUnauthorized, "the hub names no user for the token")
	}
	isAccount, enrolls := strings.HasPrefix(user.Username, accountUser), strings.HasPrefix(user.Username, bootstrapUser)
	if strings.HasPrefix(user.Username, reserved) && !isAccount && !enrolls {
		return Faultf(http.StatusForbidden, "the federator does not act as %s, a user of Kubernetes itself; use an account whose rights are given by RBAC", user.Username)
	}
	within := func(group, parent string) bool { return group == parent || strings.HasPrefix(group, parent+":") }
	at := slices.IndexFunc(user.Groups, func(group string) bool {
		ordinary := group == authenticated || isAccount && within(group, allAccounts) || enrolls && within(group, bootstrapGroup)
		return strings.HasPrefix(group, reserved) && !ordinary
	})
	if at >= 0 {
		return Faultf(http.StatusForbidden, "the federator does not act as %s, which is in the group %s of Kubernetes itself; use an account whose rights are given by RBAC",
			user.Username, user.Groups[at])
	}
	return nil
}

// As returns a client that acts as a user.
func (h *Hub) As(user authenticationv1.UserInfo) (client.WithWatch, error) {
	config, err := h.Impersonated(user)
	if err != nil {
		return nil, err
	}
	acting, err := client.NewWithWatch(config, client.Options{Scheme: h.scheme, Mapper: h.mapper})
	if err != nil {
		return nil, fmt.Errorf("act as %s at the hub: %w", user.Username, err)
	}
	return acting, nil
}
