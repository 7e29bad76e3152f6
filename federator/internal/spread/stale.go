// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RetryAfter is when to reconcile again if the cache was stale.
const RetryAfter = 200 * time.Millisecond

// IsStale reports whether an error is due to a stale cache.
func IsStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
