import './styles/tokens.css';
import './styles/base.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { applyPrefs } from './lib/prefs.svelte';
import { router } from './lib/router.svelte';
import { screens } from './screens';

applyPrefs();
// The open screen loads while the frame is drawn.
if (router.match) screens[router.match.screen].load().catch(() => {}); // `Outlet` tells the failure
mount(App, { target: document.getElementById('app')! });
