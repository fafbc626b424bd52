// Disables the button for a moment after the page appears or gets the focus. Each click or key press in that time starts the time again.
// So clicks that were meant for another window approve nothing. Without this script the button works at once.
const approve = document.querySelector('button[data-waits]')
if (approve !== null) {
  let timer
  const wait = () => {
    enable(false)
    clearTimeout(timer)
    timer = setTimeout(enable, Number(approve.dataset.waits), true)
  }
  const enable = (isEnabled) => {
    approve.disabled = !isEnabled
    // Some browsers report no clicks on a disabled button. With this style they reach the page.
    approve.style.pointerEvents = isEnabled ? '' : 'none'
  }
  const pressed = () => approve.disabled && wait()
  wait()
  addEventListener('focus', wait)
  addEventListener('pageshow', wait)
  document.addEventListener('visibilitychange', wait)
  document.addEventListener('pointerdown', pressed, true)
  document.addEventListener('keydown', pressed, true)
}

// If the application opened this window: reports the decision to the application's origins only, and closes.
const decided = document.querySelector('[data-approval]')
if (decided !== null && window.opener !== null) {
  const { approval: id, state, origins } = decided.dataset
  for (const origin of JSON.parse(origins))
    window.opener.postMessage({ type: 'chatelaine:approval', id, state }, origin)
  window.close()
}
