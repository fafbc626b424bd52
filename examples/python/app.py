import base64, hashlib, html, json, os, secrets, threading, time, uuid
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import Request, urlopen

ORIGIN = os.environ.get("APP_ORIGIN", "http://localhost:3000")
WALLET = os.environ.get("WALLET_ORIGIN", "http://localhost:4000")
ISSUER = f"{WALLET}/oauth"
CLIENT_ID = "demo"  # a client of every development server; it has no secret

with urlopen(f"{ISSUER}/.well-known/openid-configuration", timeout=15) as response:
    SERVER = json.load(response)
sessions = {}  # session id: what belongs to this browser; a real application uses its database


class SignedOut(Exception):
    """The user must sign in again."""


def get_tokens(session, **grant):
    """Gets tokens, and stores them before they are used: each refresh token counts once."""
    asked = time.time()
    form = urlencode({"client_id": CLIENT_ID, **grant}).encode()
    with urlopen(SERVER["token_endpoint"], form, timeout=15) as response:
        tokens = json.load(response)
    renew_at = asked + 0.8 * tokens["expires_in"]
    session |= {"token": tokens["access_token"], "refresh": tokens["refresh_token"], "renew_at": renew_at}


def token_of(session, refused=None):
    """Returns the access token, renewed when it is due or was refused."""
    with session["lock"]:  # requests at the same time share one renewal
        if "token" not in session:
            raise SignedOut
        if session["token"] == refused or time.time() >= session["renew_at"]:
            try:
                get_tokens(session, grant_type="refresh_token", refresh_token=session["refresh"])
            except HTTPError as error:
                if json.load(error).get("error") != "invalid_grant":
                    raise  # the service does not answer: the session remains
                del session["token"]
                raise SignedOut
        return session["token"]


def call(session, path, body=None, key=None, refused=None):
    """Calls the API for the signed-in user."""
    token = token_of(session, refused)
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(f"{WALLET}/v1{path}", data, headers), timeout=40) as response:
            return json.load(response)
    except HTTPError as error:
        if error.code != 401:
            raise
        if refused is not None:
            raise SignedOut
    return call(session, path, body, key, refused=token)


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        pages = {"/": self.home, "/sign-in": self.sign_in, "/callback": self.callback}
        self.answer(pages.get(url.path), parse_qs(url.query))

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(self.send if self.path == "/send" else None, form)

    def answer(self, page, values):
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("shop")
        session = sessions.get(cookie.value if cookie else None, {"lock": threading.Lock()})
        try:
            page(session, values) if page else self.page("Not found", 404)
        except SignedOut:
            self.page('<a href="/sign-in">Sign in</a>')
        except HTTPError as error:
            problem = json.load(error)  # `code` is for programs, `userMessage` for users
            self.page(html.escape(f"{problem.get('code')}: {problem.get('userMessage', 'This did not work.')}"), error.code)

    def home(self, session, _):
        me = call(session, "/me")
        [balance] = call(session, f"/users/{quote(me['id'], safe='')}/balance").values()
        self.page(
            f"<h1>{html.escape(me['username'])}</h1><p>{me['address']}"
            f"<p>{balance['formatted']} {html.escape(balance['symbol'])}"
            f'<form method="post" action="/send"><input type="hidden" name="key" value="{uuid.uuid4()}">'
            "<button>Send 0.01 to bob</button></form>"
        )

    def send(self, session, form):
        # The key comes from the form: a form that is submitted twice sends once.
        transfer = {"tokenType": "NATIVE", "amount": "0.01", "toUserId": "DEV-bob"}
        sent = call(session, "/tokens/transfers?wait=mined", transfer, form["key"][0])
        self.page(f'{sent["status"]}: <a href="{html.escape(sent["explorerUrl"])}">transaction</a>, <a href="/">back</a>')

    def sign_in(self, _, __):
        # The verifier proves at the end that this server began the sign-in; the state ties it to this browser.
        verifier, state, session_id = (secrets.token_urlsafe(32) for _ in range(3))
        sessions[session_id] = {"lock": threading.Lock(), "verifier": verifier, "state": state}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": CLIENT_ID, "redirect_uri": f"{ORIGIN}/callback", "scope": "openid profile",
            "state": state, "code_challenge": challenge, "code_challenge_method": "S256",
        }
        self.redirect(f"{SERVER['authorization_endpoint']}?{urlencode(query)}", session_id)

    def callback(self, session, query):
        begun = session.pop("state", None)
        if begun is None or query.get("state") != [begun] or query.get("iss") != [ISSUER] or "code" not in query:
            return self.page("This sign-in failed. <a href='/sign-in'>Try again</a>", 400)
        get_tokens(
            session, grant_type="authorization_code", code=query["code"][0],
            redirect_uri=f"{ORIGIN}/callback", code_verifier=session.pop("verifier"),
        )
        self.redirect("/")

    def page(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def redirect(self, location, session_id=None):
        self.send_response(303)
        self.send_header("Location", location)
        if session_id:
            self.send_header("Set-Cookie", f"shop={session_id}; HttpOnly; SameSite=Lax; Path=/")
        self.end_headers()


print(f"Open {ORIGIN}", flush=True)
ThreadingHTTPServer(("localhost", urlsplit(ORIGIN).port), Site).serve_forever()
