import './styles/tokens.css';
import './styles/base.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { applyPrefs } from './lib/prefs.svelte';

applyPrefs();
mount(App, { target: document.getElementById('app')! });
