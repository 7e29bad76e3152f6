// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Names writes EndpointSlices with addresses on a network for headless Services with the label kubernetsn.io/network, so that the cluster DNS
// has names for them.
type Names struct {
	Client client.Client
	// live reads pods and slices past the cache, which has neither all labels of pods nor slices.
	live   client.Reader
	events record.EventRecorder

	// The fields below belong to the controller's single worker.

	// pace limits how often the slices of a Service are compared.
	pace *pace
	// reported has the fault of each Service for which there was an Event.
	reported map[types.NamespacedName]string
}

const (
	// sliceManager is the value of the label by which other controllers leave slices alone.
	sliceManager = "kubernetsn.io"
	// maxSliceEndpoints is the limit of the API server.
	maxSliceEndpoints = 1000
)

// serviceInvalidError is an error in a Service that its owner must correct.
type serviceInvalidError struct{ error }

func addNames(m manager.Manager, shared *shared) error {
	names := &Names{Client: m.GetClient(), live: shared.live, events: m.GetEventRecorderFor("ktsn-operator"), pace: newPace(time.Now), reported: map[types.NamespacedName]string{}}
	ofPod := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, pod client.Object) []reconcile.Request {
		return names.services(ctx, client.InNamespace(pod.GetNamespace()))
	})
	ofNetwork := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, network client.Object) []reconcile.Request {
		return names.services(ctx, client.MatchingLabels{v1alpha1.NetworkAnnotation: network.GetName()})
	})
	return ctrl.NewControllerManagedBy(m).Named("names").
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, ofPod).
		Watches(&v1alpha1.TSNNetwork{}, ofNetwork, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(names.start)).
		Complete(names)
}

// start is a source.Func of the controller. It enqueues the Services of all slices, which may have lost their label while no operator ran.
func (r *Names) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	var list discoveryv1.EndpointSliceList
	if err := r.live.List(ctx, &list, client.MatchingLabels{discoveryv1.LabelManagedBy: sliceManager}); err != nil {
		return fmt.Errorf("list the EndpointSlices of the operator: %w", err)
	}
	for i := range list.Items {
		slice := &list.Items[i]
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}})
	}
	return nil
}

// services returns requests for the Services with the label.
func (r *Names) services(ctx context.Context, options ...client.ListOption) (requests []reconcile.Request) {
	var list corev1.ServiceList
	_ = r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...) // a synced cache does not fail
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile writes the slices of one Service, and deletes those that it needs no more.
func (r *Names) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, request.NamespacedName, service)
	if apierrors.IsNotFound(err) { // or without the label
		r.pace.forget(request.String())
		delete(r.reported, request.NamespacedName)
		return reconcile.Result{}, r.apply(ctx, request.NamespacedName, nil)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Service %s: %w", request, err)
	}
	if wait := r.pace.wait(request.String(), writeInterval); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.pace.done(request.String())
	wanted, err := r.slices(ctx, service)
	var invalid serviceInvalidError
	if err != nil && !errors.As(err, &invalid) {
		return reconcile.Result{}, err
	}
	reported := r.reported[request.NamespacedName]
	delete(r.reported, request.NamespacedName)
	if err != nil {
		if r.reported[request.NamespacedName] = err.Error(); reported != err.Error() {
			r.events.Event(service, corev1.EventTypeWarning, v1alpha1.ReasonServiceInvalid, err.Error())
		}
	}
	return reconcile.Result{RequeueAfter: resyncPeriod}, r.apply(ctx, request.NamespacedName, wanted)
}

// slices returns the EndpointSlices of a Service.
func (r *Names) slices(ctx context.Context, service *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	name := service.Labels[v1alpha1.NetworkAnnotation]
	selector, err := labels.Parse(service.Annotations[v1alpha1.SelectorAnnotation])
	switch {
	case service.Spec.ClusterIP != corev1.ClusterIPNone:
		err = fmt.Errorf("the Service has the label %s and a cluster IP, which leads to the primary network; recreate it with clusterIP: None", v1alpha1.NetworkAnnotation)
	case len(service.Spec.Selector) > 0:
		err = fmt.Errorf("the Service has the label %s and spec.selector, by which Kubernetes adds addresses of the primary network; move the selector to the annotation %s",
			v1alpha1.NetworkAnnotation, v1alpha1.SelectorAnnotation)
	case err != nil:
		err = fmt.Errorf("annotation %s: %w; give labels such as app=talker", v1alpha1.SelectorAnnotation, err)
	case selector.Empty():
		err = fmt.Errorf("the Service has the label %s and no annotation %s; give labels of pods such as app=talker", v1alpha1.NetworkAnnotation, v1alpha1.SelectorAnnotation)
	}
	if err != nil {
		return nil, serviceInvalidError{err}
	}
	network := &v1alpha1.TSNNetwork{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, network); apierrors.IsNotFound(err) {
		return nil, serviceInvalidError{fmt.Errorf("label %s: there is no TSNNetwork %s; correct the label, or create the network", v1alpha1.NetworkAnnotation, name)}
	} else if err != nil {
		return nil, fmt.Errorf("get network %s: %w", name, err)
	}
	onNetworks, err := labels.NewRequirement(v1alpha1.PodLabel, "=", []string{v1alpha1.LabelValue})
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(service.Namespace), client.MatchingLabelsSelector{Selector: selector.Add(*onNetworks)}); err != nil {
		return nil, fmt.Errorf("list the pods of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var all []discoveryv1.EndpointSlice
	for family, isFamily := range map[discoveryv1.AddressType]func(netip.Addr) bool{discoveryv1.AddressTypeIPv4: netip.Addr.Is4, discoveryv1.AddressTypeIPv6: netip.Addr.Is6} {
		var endpoints []discoveryv1.Endpoint
		for i := range pods.Items {
			for _, address := range addressesOf(&pods.Items[i], network) {
				if isFamily(address) {
					endpoints = append(endpoints, endpointOf(service, &pods.Items[i], address))
				}
			}
		}
		number := 0
		for chunk := range slices.Chunk(endpoints, maxSliceEndpoints) {
			all = append(all, sliceOf(service, family, number, chunk))
			number++
		}
	}
	return all, nil
}

// addressesOf returns the addresses of a running pod on a network, as Multus reports them. Others than those of the network's ranges are left out:
// the namespace's users can write that annotation.
func addressesOf(pod *corev1.Pod, network *v1alpha1.TSNNetwork) (addresses []netip.Addr) {
	if podstatus.Ended(pod) || pod.DeletionTimestamp != nil || isMirror(pod) {
		return nil
	}
	for _, attached := range podstatus.Networks(pod) {
		for _, text := range attached.Addresses {
			address, err := netip.ParseAddr(text)
			inRange := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
			if attached.Network == network.Name && err == nil && slices.ContainsFunc(tsnnetwork.Ranges(network), inRange) {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

func endpointOf(service *corev1.Service, pod *corev1.Pod, address netip.Addr) discoveryv1.Endpoint {
	ready := podstatus.Ready(pod)
	serving, terminating := ready, false
	ready = ready || service.Spec.PublishNotReadyAddresses
	endpoint := discoveryv1.Endpoint{
		Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		endpoint.NodeName = &pod.Spec.NodeName
	}
	if pod.Spec.Hostname != "" { // a pod of a StatefulSet gets a name of its own
		endpoint.Hostname = &pod.Spec.Hostname
	}
	return endpoint
}

func sliceOf(service *corev1.Service, family discoveryv1.AddressType, number int, endpoints []discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	slice := discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: fmt.Sprintf("%s-tsn-%s-%d", service.Name, strings.ToLower(string(family)), number),
			Labels:          map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: sliceManager, corev1.IsHeadlessService: ""},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}},
		},
		AddressType: family, Endpoints: endpoints,
	}
	for _, port := range service.Spec.Ports {
		number := port.Port
		if port.TargetPort.IntVal > 0 {
			number = port.TargetPort.IntVal
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &number, AppProtocol: port.AppProtocol})
	}
	return slice
}

// apply writes the slices of a Service that differ, and deletes all others of the operator.
func (r *Names) apply(ctx context.Context, service types.NamespacedName, wanted []discoveryv1.EndpointSlice) error {
	var list discoveryv1.EndpointSliceList
	err := r.live.List(ctx, &list, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: sliceManager})
	if err != nil {
		return fmt.Errorf("list the EndpointSlices of Service %s: %w", service, err)
	}
	var errs error
	for i := range list.Items {
		existing := &list.Items[i]
		at := slices.IndexFunc(wanted, func(slice discoveryv1.EndpointSlice) bool { return slice.Name == existing.Name })
		switch {
		case at < 0:
			errs = errors.Join(errs, client.IgnoreNotFound(r.Client.Delete(ctx, existing)))
		case equality.Semantic.DeepEqual(existing.Endpoints, wanted[at].Endpoints) && equality.Semantic.DeepEqual(existing.Ports, wanted[at].Ports) &&
			equality.Semantic.DeepEqual(existing.OwnerReferences, wanted[at].OwnerReferences):
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	for i := range wanted {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&wanted[i])
		if err != nil {
			return err
		}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields}), fieldOwner, client.ForceOwnership)
		if err != nil && !namespaceGone(err) {
			errs = errors.Join(errs, err)
		}
	}
	if errs != nil {
		return fmt.Errorf("write the EndpointSlices of Service %s: %w", service, errs)
	}
	return nil
}
