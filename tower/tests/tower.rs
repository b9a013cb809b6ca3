//! The layers around axum's router and around plain services, on the embedded server and paused time.

use std::convert::Infallible;
use std::future::{pending, Future};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use axum::Router;
use lockson::{EmbeddedServer, LockError, Locks, LostReason, Owner};
use lockson_tower::{Deadline, LockLayer, OwnerLayer, Rejection};
use tokio::time::{sleep, Instant};
use tower::{service_fn, Layer, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

fn request(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

/// A service that answers after this work.
fn working<F: Future + Send>(
    work: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
       + Send {
    service_fn(move |_: Request<Body>| {
        let work = work();
        async move {
            work.await;
            Ok(Response::new(Body::empty()))
        }
    })
}

/// One lock for each path.
fn by_path(locks: &Locks) -> LockLayer<impl Fn(&Request<Body>) -> Option<lockson::ReentrantLock>> {
    let locks = locks.clone();
    LockLayer::new(move |request: &Request<Body>| match request.uri().path() {
        "/free" => None,
        "/nameless" => Some(locks.lock("")),
        path => Some(locks.lock(path)),
    })
}

fn why(response: &Response<Body>) -> &Rejection {
    response.extensions().get().unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_request_is_an_owner() {
    let handler = || async { Owner::current().to_string() };
    let own = Router::new().route("/", get(handler)).layer(OwnerLayer);
    let who = |request: Request<Body>| async {
        let response = own.clone().oneshot(request).await.unwrap();
        String::from_utf8(axum::body::to_bytes(response.into_body(), 1000).await.unwrap().to_vec()).unwrap()
    };
    let (one, other) = tokio::join!(who(request("/")), who(request("/")));
    assert!(one != other && one.starts_with("unique-") && other.starts_with("unique-"), "{one} {other}");
    let mut named = request("/");
    named.extensions_mut().insert(Owner::named("request-17").unwrap());
    assert_eq!(who(named).await, "named-request-17");
}

/// Also in one task, and with a lock that is reentrant.
#[tokio::test(start_paused = true)]
async fn requests_of_one_key_go_one_by_one() {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, high) = (inside.clone(), most.clone());
    let service = working(move || {
        let (now, high) = (now.clone(), high.clone());
        async move {
            high.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            sleep(SECOND / 10).await;
            now.fetch_sub(1, Ordering::Relaxed);
        }
    });
    let service = by_path(&Locks::embedded()).wait(SECOND * 10).layer(service);
    let began = Instant::now();
    let all = ["/a", "/a", "/a", "/free"].map(|path| service.clone().oneshot(request(path)));
    let [one, two, three, free] = all;
    let (one, two, three, _) = tokio::join!(one, two, three, async {
        assert_eq!(free.await.unwrap().status(), StatusCode::OK);
        assert!(began.elapsed() < SECOND / 5);
    });
    assert_eq!([one, two, three].map(|answer| answer.unwrap().status()), [StatusCode::OK; 3]);
    // One under the lock, and the one that takes none.
    assert_eq!((most.load(Ordering::Relaxed), inside.load(Ordering::Relaxed)), (2, 0));
    assert!(began.elapsed() >= SECOND * 3 / 10);
}

#[tokio::test(start_paused = true)]
async fn busy_is_a_conflict_within_the_limit() {
    let locks = Locks::embedded();
    let service = by_path(&locks).wait(SECOND).layer(working(|| async {}));
    let held = locks.lock("/a").guard().await.unwrap();
    let began = Instant::now();
    let response = service.clone().oneshot(request("/a")).await.unwrap();
    assert_eq!((response.status(), why(&response)), (StatusCode::CONFLICT, &Rejection::Busy));
    assert!(began.elapsed() >= SECOND && began.elapsed() < SECOND * 2);
    assert_eq!(service.clone().oneshot(request("/b")).await.unwrap().status(), StatusCode::OK);

    // The deadline of the request is the shorter limit; one that has passed sends nothing.
    for (left, limit) in [(SECOND / 2, SECOND * 3 / 4), (Duration::ZERO, Duration::from_millis(1))] {
        let (began, mut hurried) = (Instant::now(), request("/a"));
        hurried.extensions_mut().insert(Deadline(began + left));
        let response = service.clone().oneshot(hurried).await.unwrap();
        assert_eq!((response.status(), why(&response)), (StatusCode::SERVICE_UNAVAILABLE, &Rejection::Deadline));
        assert!(began.elapsed() >= left && began.elapsed() < limit, "{:?}", began.elapsed());
    }
    held.unlock().await.unwrap();
    assert_eq!(service.clone().oneshot(request("/a")).await.unwrap().status(), StatusCode::OK);
    let nameless = service.oneshot(request("/nameless")).await.unwrap();
    assert_eq!(nameless.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_unavailable() {
    let server = EmbeddedServer::new();
    let service = by_path(&server.connect()).layer(working(|| async { panic!("it has no lock") }));
    server.stop();
    let response = service.clone().oneshot(request("/a")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(matches!(why(&response), Rejection::Lock(error) if error.is_unreachable()), "{response:?}");
    let (began, mut hurried) = (Instant::now(), request("/a"));
    hurried.extensions_mut().insert(Deadline(began + SECOND / 2));
    let response = service.oneshot(hurried).await.unwrap();
    assert_eq!((response.status(), why(&response)), (StatusCode::SERVICE_UNAVAILABLE, &Rejection::Deadline));
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn it_is_given_back_with_the_answer_and_with_the_future() {
    let locks = Locks::embedded();
    let service = by_path(&locks).layer(working(|| sleep(SECOND)));
    assert_eq!(service.clone().oneshot(request("/a")).await.unwrap().status(), StatusCode::OK);
    assert!(!locks.lock("/a").is_locked().await.unwrap(), "given back before the answer");

    // The client goes away.
    let gone = tokio::time::timeout(SECOND / 2, service.oneshot(request("/a"))).await;
    assert!(gone.is_err() && locks.health().holds == 1);
    let next = locks.lock("/a").acquire().wait(SECOND).guard().await.unwrap();
    assert!(next.is_some());
}

struct Bell(Arc<AtomicUsize>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_stops_the_service() {
    let (locks, stopped) = (Locks::embedded(), Arc::new(AtomicUsize::new(0)));
    let bell = stopped.clone();
    let service = by_path(&locks).layer(working(move || {
        let bell = Bell(bell.clone());
        async move {
            let _bell = bell;
            pending::<()>().await
        }
    }));
    let forcing = async {
        sleep(SECOND).await;
        locks.lock("/a").force_unlock().await.unwrap()
    };
    let response = tokio::time::timeout(SECOND * 5, service.oneshot(request("/a")));
    let (response, forced) = tokio::join!(response, forcing);
    let response = response.expect("it is stopped").unwrap();
    assert_eq!((forced, response.status()), (true, StatusCode::SERVICE_UNAVAILABLE));
    assert!(matches!(why(&response), Rejection::Lost(lost) if lost.why == LostReason::Forced), "{response:?}");
    assert_eq!(stopped.load(Ordering::Relaxed), 1);
}

/// The inner service may enter the lock of its request again; another lock layer of that key does too.
#[tokio::test(start_paused = true)]
async fn inside_the_owner_is_the_requests() {
    let locks = Locks::embedded();
    let handler = {
        let locks = locks.clone();
        move || {
            let lock = locks.lock("/a");
            async move { assert!(lock.try_lock().await.unwrap().is_acquired()) }
        }
    };
    let outer = by_path(&locks).layer(by_path(&locks).layer(working(handler)));
    assert_eq!(outer.oneshot(request("/a")).await.unwrap().status(), StatusCode::OK);

    let mutex = locks.clone();
    let mutex = LockLayer::new(move |_: &Request<Body>| Some(mutex.mutex("/b")));
    let twice = mutex.layer(mutex.layer(working(|| async {})));
    let response = twice.oneshot(request("/b")).await.unwrap();
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(matches!(why(&response), Rejection::Lock(LockError::AlreadyHeld { .. })));
}
