// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// Reviewer tells whose a bearer token is.
type Reviewer interface {
	Review(ctx context.Context, token string) (*authenticationv1.UserInfo, error)
}

// hubReviewer asks the hub.
type hubReviewer struct{ own client.Client }

// Review asks the hub whose a token is. A token that is wrong or has expired is a fault of who asked.
func (r hubReviewer) Review(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := r.own.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask the hub whose the token is: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		return nil, hub.Faultf(http.StatusUnauthorized, "the hub does not know the bearer token: it is wrong, has expired or was withdrawn")
	}
	return &review.Status.User, nil
}

// userKey is that of the caller in a context.
type userKey struct{}

// caller is who asks.
func caller(ctx context.Context) authenticationv1.UserInfo {
	user, _ := ctx.Value(userKey{}).(authenticationv1.UserInfo)
	return user
}

// errNoToken answers requests without a token.
var errNoToken = hub.Faultf(http.StatusUnauthorized, "the request has no bearer token; send one of the hub's as \"Authorization: Bearer TOKEN\"")

// identify finds out who asks.
func identify(request *http.Request, reviewer Reviewer) (*authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, errNoToken
	}
	user, err := reviewer.Review(request.Context(), token)
	var fault *hub.Fault
	if err != nil && !errors.As(err, &fault) {
		return nil, &hub.Fault{Status: http.StatusServiceUnavailable, Sentence: sentence(err)}
	}
	return user, err
}
